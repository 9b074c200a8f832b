// cp.async with producers, further; the best TMA designs with few changes.
#include "variants.hpp"
static bool done[] = {
    add<Design{.blocks = Blocks::persistent, .producer = true}>("ca_128x256x32_s4_prod_pers"),
    add<Design{.BM = 256, .BN = 128, .blocks = Blocks::persistent, .producer = true}>(
        "ca_256x128x32_s4_prod_pers"),
    add<Design{.b = B::transpose, .blocks = Blocks::persistent, .producer = true}>(
        "ca_128x256x32_s4_swap_prod_pers"),
    add<Design{.b = B::ldmatrix, .round = Round::pass, .blocks = Blocks::persistent, .producer = true}>(
        "ca_128x256x32_s4_bT_pass_prod_pers"),
    add<Design{.stages = 3,
               .load = Load::tma,
               .b = B::transpose,
               .round = Round::tma,
               .blocks = Blocks::persistent,
               .band = 16,
               .producer = true}>("tf_128x256x32_s3_prod_pers_band16"),
    add<Design{.BM = 256,
               .BN = 128,
               .stages = 3,
               .load = Load::tma,
               .b = B::transpose,
               .round = Round::tma,
               .blocks = Blocks::persistent,
               .producer = true}>("tf_256x128x32_s3_prod_pers"),
    add<Design{.BM = 256,
               .BN = 128,
               .load = Load::tma,
               .b = B::lds128,
               .round = Round::add,
               .blocks = Blocks::persistent,
               .producer = true}>("tma_256x128x32_s4_prod_pers_add"),
};
