// Pages of HTML that hold data of ours: names and messages in them may be any text.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rondo {

// For text between tags and in double quotes.
std::string escaped_html(std::string_view text);

// JSON that may stand inside of a <script>: no string of it can end the element.
std::string json_in_script(std::string_view json);

// `page` with each mark replaced by its text. REQUIRES: the marks stand in it in this order. What is put in
// is not searched for marks.
std::string filled_page(std::string_view page,
                        const std::vector<std::pair<std::string_view, std::string>>& marks);

}  // namespace rondo
