// TMA that rounds (TFLOAT32), B as the operand with 16 rows: no moves, no additions in the main loop.
#include "variants.hpp"
static bool done[] = {
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma}>("tf_128x256x32_s4"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .producer = true}>("tf_128x256x32_s4_prod"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::stream_k}>("tf_128x256x32_s4_streamk"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::stream_k, .producer = true}>("tf_128x256x32_s4_prod_streamk"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::stream_k, .band = 16, .producer = true}>("tf_128x256x32_s4_prod_streamk_band16"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .producer = true, .cluster = 2}>("tf_128x256x32_s4_prod_cluster2"),
    add<Design{.BM = 256, .BN = 128, .load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::stream_k, .producer = true}>("tf_256x128x32_s4_prod_streamk"),
    add<Design{.BM = 128, .BN = 128, .stages = 3, .load = Load::tma, .b = B::transpose, .round = Round::tma, .per_sm = 2}>("tf_128x128x32_s3_w4_2sm"),
    add<Design{.BM = 192, .BN = 256, .WM = 96, .WN = 64, .stages = 3, .load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::stream_k, .buffers = 1, .producer = true}>("tf_192x256x32_s3_prod_streamk_onebuf"),
    add<Design{.BM = 256, .BN = 192, .WM = 64, .WN = 96, .stages = 3, .load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::stream_k, .buffers = 1, .producer = true}>("tf_256x192x32_s3_prod_streamk_onebuf"),
};
