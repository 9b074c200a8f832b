// TMA with larger tiles, packed operands, two blocks on a multiprocessor.
#include "variants.hpp"
static bool done[] = {
    add<Design{.BM = 256, .BN = 192, .WM = 64, .WN = 96, .stages = 3, .load = Load::tma, .blocks = Blocks::stream_k, .buffers = 1}>("tma_256x192x32_s3_streamk_onebuf"),
    add<Design{.BM = 256, .BN = 192, .WM = 64, .WN = 96, .stages = 3, .load = Load::tma, .round = Round::none, .blocks = Blocks::stream_k, .buffers = 1, .producer = true}>("tma_256x192x32_s3_prod_streamk_onebuf_noround"),
    add<Design{.BM = 256, .BN = 192, .WM = 64, .WN = 96, .stages = 3, .load = Load::tma, .b = B::transpose, .round = Round::none, .blocks = Blocks::stream_k, .buffers = 1}>("tma_256x192x32_s3_streamk_onebuf_swap_noround"),
    add<Design{.BM = 128, .BN = 128, .BK = 32, .stages = 3, .load = Load::tma, .per_sm = 2}>("tma_128x128x32_s3_w4_2sm"),
    add<Design{.BM = 128, .BN = 192, .BK = 16, .WM = 64, .WN = 96, .stages = 4, .load = Load::tma, .blocks = Blocks::stream_k, .per_sm = 2, .buffers = 1}>("tma_128x192x16_s4_w4_2sm_streamk_onebuf"),
    add<Design{.load = Load::tma, .b = B::packed, .round = Round::pass, .blocks = Blocks::stream_k}>("tma_128x256x32_s4_packed_streamk"),
    add<Design{.load = Load::tma, .b = B::packed, .round = Round::pass, .blocks = Blocks::stream_k, .producer = true}>("tma_128x256x32_s4_packed_prod_streamk"),
    add<Design{.load = Load::tma, .b = B::ldmatrix, .round = Round::pass, .blocks = Blocks::stream_k, .producer = true}>("tma_128x256x32_s4_bT_pass_prod_streamk"),
};
