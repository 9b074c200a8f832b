// The TMA that rounds, persistent blocks.
#include "variants.hpp"
static bool done[] = {
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent, .producer = true}>("tf_128x256x32_s4_prod_pers"),
    add<Design{.BM = 256, .BN = 128, .load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent, .producer = true}>("tf_256x128x32_s4_prod_pers"),
    add<Design{.BK = 16, .stages = 8, .load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent, .producer = true}>("tf_128x256x16_s8_prod_pers"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent, .band = 4, .producer = true}>("tf_128x256x32_s4_prod_pers_band4"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent, .band = 16, .producer = true}>("tf_128x256x32_s4_prod_pers_band16"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent, .buffers = 0, .producer = true}>("roll_128x256x32_s4_prod_pers"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent, .buffers = 1, .producer = true}>("tf_128x256x32_s4_prod_pers_onebuf"),
    add<Design{.load = Load::tma, .b = B::lds128, .round = Round::tma, .blocks = Blocks::persistent, .producer = true}>("tf_128x256x32_s4_prod_pers_lds128"),
    add<Design{.load = Load::tma, .b = B::ldmatrix, .round = Round::tma, .blocks = Blocks::persistent, .producer = true}>("tf_128x256x32_s4_prod_pers_bT"),
    add<Design{.BM = 192, .BN = 256, .WM = 96, .WN = 64, .stages = 3, .load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent, .buffers = 0, .producer = true}>("roll_192x256x32_s3_w8_prod_pers"),
    add<Design{.BM = 192, .BN = 256, .WM = 64, .WN = 64, .stages = 3, .load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent, .buffers = 0}>("roll_192x256x32_s3_w12_pers"),
    add<Design{.BN = 128, .stages = 3, .load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent, .per_sm = 2}>("tf_128x128x32_s3_w4_2sm_pers"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::stream_k, .producer = true, .heads_first = true}>("tf_128x256x32_s4_prod_streamk_headsfirst"),
    add<Design{.load = Load::tma, .blocks = Blocks::persistent, .producer = true}>("tma_128x256x32_s4_prod_pers_add"),
};
