// cp.async, 128x256x32, 4 stages: one ingredient changed at a time.
#include "variants.hpp"
static bool done[] = {
    add<Design{.round = Round::none}>("ca_128x256x32_s4_noround"),
    add<Design{.round = Round::cvt}>("ca_128x256x32_s4_cvt"),
    add<Design{.round = Round::pass}>("ca_128x256x32_s4_pass"),
    add<Design{.buffers = 1}>("ca_128x256x32_s4_onebuf"),
    add<Design{.b = B::lds32}>("ca_128x256x32_s4_lds32"),
    add<Design{.b = B::transpose}>("ca_128x256x32_s4_swap"),
    add<Design{.b = B::transpose, .round = Round::none}>("ca_128x256x32_s4_swap_noround"),
    add<Design{.b = B::ldmatrix, .round = Round::pass}>("ca_128x256x32_s4_bT_pass"),
    add<Design{.band = 1}>("ca_128x256x32_s4_band1"),
};
