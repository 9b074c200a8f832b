// TMA designs.
#include "variants.hpp"
static bool done[] = {
    add<Design{.load = Load::tma}>("tma_128x256x32_s4"),
    add<Design{.load = Load::tma, .producer = true}>("tma_128x256x32_s4_prod"),
    add<Design{.load = Load::tma, .blocks = Blocks::persistent, .producer = true}>(
        "tma_128x256x32_s4_prod_pers"),
    add<Design{.load = Load::tma, .blocks = Blocks::stream_k}>("tma_128x256x32_s4_streamk"),
    add<Design{.load = Load::tma, .blocks = Blocks::stream_k, .producer = true}>(
        "tma_128x256x32_s4_prod_streamk"),
    add<Design{.load = Load::tma, .round = Round::none, .blocks = Blocks::stream_k, .producer = true}>(
        "tma_128x256x32_s4_prod_streamk_noround"),
    add<Design{.load = Load::tma, .b = B::transpose, .blocks = Blocks::stream_k, .producer = true}>(
        "tma_128x256x32_s4_prod_streamk_swap"),
    add<Design{.load = Load::tma, .cluster = 2}>("tma_128x256x32_s4_cluster2"),
    add<Design{.load = Load::tma, .producer = true, .cluster = 2}>("tma_128x256x32_s4_prod_cluster2"),
};
