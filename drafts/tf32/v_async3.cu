// cp.async without __syncthreads, with producers, and two or three blocks on a multiprocessor.
#include "variants.hpp"
static bool done[] = {
    add<Design{.free_running = true}>("ca_128x256x32_s4_free"),
    add<Design{.round = Round::add, .producer = true}>("ca_128x256x32_s4_prod"),
    add<Design{.b = B::transpose, .round = Round::pass, .blocks = Blocks::persistent, .producer = true}>(
        "ca_128x256x32_s4_swap_pass_prod_pers"),
    add<Design{.BN = 128, .stages = 3, .per_sm = 2, .free_running = true}>("ca_128x128x32_s3_w4_2sm_free"),
    add<Design{.BN = 128, .stages = 3, .blocks = Blocks::persistent, .per_sm = 2}>(
        "ca_128x128x32_s3_w4_2sm_pers"),
    add<Design{.BN = 128, .stages = 3, .blocks = Blocks::stream_k, .per_sm = 2}>(
        "ca_128x128x32_s3_w4_2sm_streamk"),
    add<Design{.BN = 128, .stages = 3, .per_sm = 2, .band = 16}>("ca_128x128x32_s3_w4_2sm_band16"),
    add<Design{.BN = 128, .stages = 3, .per_sm = 2, .band = 1}>("ca_128x128x32_s3_w4_2sm_band1"),
    add<Design{.BN = 128, .stages = 3, .b = B::lds32, .per_sm = 2}>("ca_128x128x32_s3_w4_2sm_lds32"),
    add<Design{.BN = 128, .stages = 3, .b = B::transpose, .per_sm = 2}>("ca_128x128x32_s3_w4_2sm_swap"),
    add<Design{.BN = 128, .stages = 3, .b = B::transpose, .round = Round::none, .per_sm = 2}>(
        "ca_128x128x32_s3_w4_2sm_swap_noround"),
    add<Design{.BN = 128, .stages = 3, .b = B::ldmatrix, .round = Round::pass, .per_sm = 2}>(
        "ca_128x128x32_s3_w4_2sm_bT_pass"),
    add<Design{.BN = 128, .stages = 3, .b = B::ldmatrix, .round = Round::add, .per_sm = 2}>(
        "ca_128x128x32_s3_w4_2sm_bT_add"),
    add<Design{.BN = 128, .stages = 3, .per_sm = 2, .buffers = 1}>("ca_128x128x32_s3_w4_2sm_onebuf"),
    add<Design{.BN = 128, .stages = 2, .per_sm = 2}>("ca_128x128x32_s2_w4_2sm"),
    add<Design{.BN = 128, .BK = 16, .stages = 6, .per_sm = 2}>("ca_128x128x16_s6_w4_2sm"),
    add<Design{.BN = 128, .stages = 2, .b = B::transpose, .round = Round::none, .per_sm = 3, .buffers = 0}>(
        "ca_128x128x32_s2_w4_3sm_roll_noround"),
};
