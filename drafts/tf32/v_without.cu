// The best design, tf_128x256x32_s4_prod_pers, without one of its ingredients each; and what came of reading why.
#include "variants.hpp"
static bool done[] = {
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent}>("wo_producer"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent, .slack = 2}>("wo_producer_slack2"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent, .buffers = 0, .producer = true, .lone_warp = true}>("wo_setmaxnreg_roll"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::add, .blocks = Blocks::persistent, .producer = true}>("wo_tma_rounding_add"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::cvt, .blocks = Blocks::persistent, .producer = true}>("wo_tma_rounding_cvt"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::none, .blocks = Blocks::persistent, .producer = true}>("wo_rounding"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent, .producer = true, .swizzle = false}>("wo_swizzle"),
    add<Design{.stages = 2, .load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent, .producer = true}>("wo_stages_2"),
    add<Design{.stages = 3, .load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent, .producer = true}>("wo_stages_3"),
    add<Design{.BN = 128, .WN = 32, .stages = 4, .load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent, .producer = true}>("wo_tile_128x128_w8_64x32"),
    add<Design{.WM = 32, .WN = 128, .load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent, .producer = true}>("wo_square_warp_32x128"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent, .band = 1, .producer = true}>("wo_bands_1"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .blocks = Blocks::persistent, .band = 32, .producer = true}>("wo_bands_32"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .producer = true, .cluster = 2}>("with_cluster2"),
    add<Design{.load = Load::tma, .b = B::transpose, .round = Round::tma, .slack = 2}>("tf_128x256x32_s4_slack2"),
    add<Design{.BN = 128, .stages = 3, .load = Load::tma, .b = B::transpose, .round = Round::tma, .per_sm = 2, .slack = 2}>("tf_128x128x32_s3_w4_2sm_slack2"),
    add<Design{.slack = 2, .free_running = true}>("ca_128x256x32_s4_free_slack2"),
    add<Design{.BN = 128, .stages = 3, .per_sm = 2, .slack = 2, .free_running = true}>("ca_128x128x32_s3_w4_2sm_free_slack2"),
};
