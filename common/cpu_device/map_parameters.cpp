#include "common/cpu_device/map_parameters.hpp"

#include <fstream>
#include <map>
#include <mutex>
#include <regex>
#include <sstream>
#include <vector>

#include "common/cpu_device/cpu_device.hpp"
#include "common/cpu_device/report.hpp"

namespace cpu_device {

namespace {

// The parts of a parameter list between commas, from behind its opening parenthesis on; none if it is cut
// short.
std::vector<std::string> parameters_in(const std::string& text) {
  std::vector<std::string> parameters(1);
  int depth = 0;
  for (const char c : text) {
    if (depth == 0 && c == ')') return parameters;
    depth += c == '(' || c == '[' || c == '<' || c == '{';
    depth -= c == ')' || c == ']' || c == '>' || c == '}';
    if (depth == 0 && c == ',')
      parameters.emplace_back();
    else
      parameters.back() += c;
  }
  return {};
}

// The lines around a place, in which the declaration is: a function's place is somewhere in its head.
std::string lines_around(const SourceLocation& place) {
  constexpr int most_lines = 30;
  std::ifstream stream(place.file.starts_with('/') ? place.file : PROJECT_ROOT "/" + place.file);
  std::string text, line;
  for (int number = 1; std::getline(stream, line) && number < place.line + most_lines; ++number) {
    if (number > place.line - most_lines) text += line + '\n';
  }
  return text;
}

}  // namespace

std::string parameter_without_grid_constant(const std::string& kernel_name, std::string text) {
  text = std::regex_replace(text, std::regex(R"(//[^\n]*|/\*[^]*?\*/)"), " ");
  std::smatch head;
  const std::regex pattern(R"(\b__global__\b[^;{]*?\b)" + kernel_name + R"(\s*\()");
  if (!std::regex_search(text, head, pattern)) return "";
  const std::vector<std::string> parameters = parameters_in(head.suffix());
  static const std::regex marked(R"(\b__grid_constant__\b)"), a_map(R"(\bTensorMap\b)"), elsewhere("[*&]"),
      last_word(R"((\w+)\s*(=[^]*)?$)");
  bool any_marked = false, any_map = false;
  std::string by_value;  // the first of another type
  for (const std::string& parameter : parameters) {
    const bool is_marked = std::regex_search(parameter, marked), is_map = std::regex_search(parameter, a_map);
    any_marked = any_marked || is_marked;
    any_map = any_map || is_map;
    std::smatch word;
    if (is_marked || std::regex_search(parameter, elsewhere) ||
        !std::regex_search(parameter, word, last_word)) {
      continue;
    }
    if (is_map) return word[1];
    if (by_value.empty()) by_value = word[1];
  }
  return any_marked || any_map ? "" : by_value;
}

const std::string& parameter_without_grid_constant(const void* kernel) {
  static std::mutex mutex;
  static std::map<const void*, std::string> known;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = known.try_emplace(kernel);
  if (is_new) {
    const SourceLocation place = source_locations({after_entry(kernel)})[0];
    const std::string name = place.function.substr(0, place.function.find('<'));
    if (place.line > 0 && !name.empty())
      found->second = parameter_without_grid_constant(name, lines_around(place));
  }
  return found->second;
}

}  // namespace cpu_device
