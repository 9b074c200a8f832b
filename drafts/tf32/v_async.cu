// cp.async designs: tile shapes, stages, where B's fragments come from, rounding, schedules.
#include "variants.hpp"
static bool done[] = {
    add<Design{.BM = 128, .BN = 128, .BK = 16, .stages = 4, .per_sm = 2}>("ca_128x128x16_s4_w4_2sm"),
    add<Design{.BM = 128, .BN = 128, .BK = 32, .stages = 3, .per_sm = 2}>("ca_128x128x32_s3_w4_2sm"),
    add<Design{.BK = 16, .stages = 3}>("ca_128x256x16_s3"),
    add<Design{.BK = 16, .stages = 5}>("ca_128x256x16_s5"),
    add<Design{.BK = 32, .stages = 3}>("ca_128x256x32_s3"),
    add<Design{.BK = 32, .stages = 4}>("ca_128x256x32_s4"),
    add<Design{.BM = 256, .BN = 128, .BK = 32, .stages = 4}>("ca_256x128x32_s4"),
    add<Design{.BK = 32, .stages = 4, .blocks = Blocks::stream_k}>("ca_128x256x32_s4_streamk"),
};
