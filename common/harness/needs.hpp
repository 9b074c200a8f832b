#pragma once

// What a kernel needs of a GPU, from the line `Needs` of its header comment, which the build passes on
// (common/tools/needs.py): alternatives such as "sm_80+", that architecture or a newer one, or "sm_90a",
// exactly that target; "" is any GPU.

#include <charconv>
#include <string>
#include <string_view>

namespace harness {

struct Target {
  int capability;  // 80 for compute capability 8.0
  bool or_newer;
};

// Calls do_with(Target) for each alternative.
template <typename Function>
void for_each_target(std::string_view needs, const Function& do_with) {
  while (!needs.empty()) {
    const std::size_t comma = needs.find(',');
    const std::string_view text = needs.substr(0, comma), digits = text.substr(text.find('_') + 1);
    Target target{0, text.ends_with('+')};
    std::from_chars(digits.data(), digits.data() + digits.size(), target.capability);
    do_with(target);
    needs.remove_prefix(comma == needs.npos ? needs.size() : needs.find_first_not_of(", ", comma));
  }
}

// Whether a GPU of that compute capability (90 for 9.0) has the instructions.
inline bool runs_on(std::string_view needs, int capability) {
  bool found = needs.empty();
  for_each_target(needs, [&](Target t) {
    found = found || capability == t.capability || (t.or_newer && capability > t.capability);
  });
  return found;
}

inline std::string dotted(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

// "compute capability 8.0 or newer"; "sm_90a, compute capability 9.0 and no other"
inline std::string in_words(std::string_view needs) {
  std::string words;
  bool exact = true;
  for_each_target(needs, [&](Target t) {
    words += (words.empty() ? "compute capability " : " or ") + dotted(t.capability);
    if (t.or_newer) words += " or newer";
    exact = exact && !t.or_newer;
  });
  return exact ? std::string(needs) + ", " + words + " and no other" : words;
}

}  // namespace harness
