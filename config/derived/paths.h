// The files and folders that a configuration names.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/schema/job_config.h"

namespace rondo {

// Where the data is. Of validation "": the documents held out of training.
std::string training_path(const JobConfig& config);
std::string validation_path(const JobConfig& config);
// The data sets that have a name.
std::vector<std::string> dataset_names(const JobConfig& config);
// Throws Error(data), with what to do, where a data set is in none of these places because no key says where
// it is.
void require_datasets(const JobConfig& config);

// "bytes", or the path of tokenizer files: what training.tokenizer comes to.
std::string tokenizer_name(const JobConfig& config);

// The folder of the run's own checkpoints.
std::filesystem::path checkpoint_root(const JobConfig& config);
// The Hugging Face folder that checkpoint.initial_load_in_hf reads.
std::string initial_hugging_face_folder(const JobConfig& config);

}  // namespace rondo
