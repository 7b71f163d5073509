// The files and folders that a configuration names.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/schema/job_config.h"

namespace rondo {

// Return the paths of the data. The data set "text" of a folder without data/corpus is the one that
// scripts/setup.sh has made beside the program. validation_path is "" for the documents held out of
// training.
std::string training_path(const JobConfig& config);
std::string validation_path(const JobConfig& config);
// Returns all known names of data sets.
std::vector<std::string> dataset_names(const JobConfig& config);
// Throws Error(data), with the next action, if no key gives the path of a data set and data/NAME
// does not exist.
void require_datasets(const JobConfig& config);

// Resolves training.tokenizer to "bytes" or a path of tokenizer files.
std::string tokenizer_name(const JobConfig& config);

// Returns the folder of the run's own checkpoints.
std::filesystem::path checkpoint_root(const JobConfig& config);
// Returns the Hugging Face folder that checkpoint.initial_load_in_hf reads.
std::string initial_hugging_face_folder(const JobConfig& config);

}  // namespace rondo
