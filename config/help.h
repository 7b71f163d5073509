// The pages of `rondo help`, generated from the lists of fields.
#pragma once

#include <string>
#include <string_view>

namespace rondo {

// Returns the page of a topic. "": all sections. "training": its keys. "training.steps": type,
// default, range, unit and meaning. "llama3": the sizes of the model. Throws Error(usage) for any
// other topic.
std::string help_page(const std::string& topic);

// Returns whether help_page has a page for the topic.
bool has_help_page(const std::string& topic);

// Returns what is known of a word: the answer for a feature that Rondo does not have, and the
// sections, keys and models that mention the word. Returns "" for an unknown word and for a word
// with a dot.
std::string search_help(const std::string& word);

// Returns whether a word of `text` begins with `word`, ignoring case. Short words must be whole.
bool mentions(std::string_view text, std::string_view word);

}  // namespace rondo
