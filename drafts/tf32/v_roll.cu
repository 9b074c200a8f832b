// Rolling fragments: few registers, so 64 x 96 warp tiles, or 12 warps of 64 x 64.
#include "variants.hpp"
static bool done[] = {
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::stream_k, .buffers = 0, .producer = true}>("roll_128x256x32_s4_prod_streamk"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::stream_k, .buffers = 0}>("roll_128x256x32_s4_streamk"),
    add<Design{.BM = 192, .BN = 256, .WM = 96, .WN = 64, .stages = 3, .load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::stream_k, .buffers = 0, .producer = true}>("roll_192x256x32_s3_w8_prod_streamk"),
    add<Design{.BM = 192, .BN = 256, .WM = 96, .WN = 64, .stages = 3, .load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::stream_k, .buffers = 0}>("roll_192x256x32_s3_w8_streamk"),
    add<Design{.BM = 192, .BN = 256, .WM = 64, .WN = 64, .stages = 3, .load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::stream_k, .buffers = 0}>("roll_192x256x32_s3_w12_streamk"),
    add<Design{.BM = 256, .BN = 192, .WM = 64, .WN = 64, .stages = 3, .load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::stream_k, .buffers = 0}>("roll_256x192x32_s3_w12_streamk"),
    add<Design{.BM = 128, .BN = 128, .BK = 32, .stages = 2, .load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::stream_k, .per_sm = 3, .buffers = 0}>("roll_128x128x32_s2_w4_3sm_streamk"),
    add<Design{.BM = 192, .BN = 128, .BK = 32, .WM = 96, .WN = 64, .stages = 2, .load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::stream_k, .per_sm = 2, .buffers = 0}>("roll_192x128x32_s2_w4_2sm_streamk"),
};
