// Fills HTML pages with data. Names and messages in the data may be any text.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rondo {

// Escapes text for use between tags and in double quotes.
std::string escaped_html(std::string_view text);

// Escapes JSON for use in a <script>: no string in it can end the element.
std::string json_in_script(std::string_view json);

// Returns `page` with each mark replaced by its text. REQUIRES: the page contains the marks in this
// order. Inserted text is not searched for marks.
std::string filled_page(std::string_view page,
                        const std::vector<std::pair<std::string_view, std::string>>& marks);

}  // namespace rondo
