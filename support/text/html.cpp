#include "support/text/html.h"

#include "support/error.h"

namespace rondo {

std::string escaped_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string json_in_script(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<')
      out += "\\u003c";  // occurs only in strings
    else
      out += c;
  }
  return out;
}

std::string filled_page(std::string_view page,
                        const std::vector<std::pair<std::string_view, std::string>>& marks) {
  std::string out;
  for (const auto& [mark, text] : marks) {
    const std::size_t at = page.find(mark);
    RONDO_ASSERT(at != std::string_view::npos, "a page without " + std::string(mark));
    out += page.substr(0, at);
    out += text;
    page.remove_prefix(at + mark.size());
  }
  return out.append(page);
}

}  // namespace rondo
