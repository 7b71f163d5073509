#include "config/absent_features.h"

namespace rondo {

std::span<const AbsentFeature> absent_features() {
  static const std::vector<AbsentFeature> list = {
      {"Averages of weights",
       {"ema", "swa", "average"},
       "No average of the weights is kept. Another program can average the weights that `rondo convert` "
       "writes."},
      {"Frozen parameters",
       {"freeze", "frozen"},
       "Every parameter has a gradient. An entry of `optimizer.parameter_groups` with lr_factor=0 keeps its "
       "parameters as they are."},
      {"Fine-tuning",
       {"lora", "qlora", "peft", "sft", "dpo", "ppo", "grpo", "rlhf", "finetune", "finetuning", "chat",
        "instruct", "distill"},
       "Rondo pretrains. Other libraries fine-tune the folder that `rondo convert` writes."},
      {"Other optimizers",
       {"sgd", "lion", "shampoo", "soap", "adafactor", "sophia", "schedulefree"},
       "`optimizer.name` is AdamW, Adam or Muon."},
      {"Learning rates by width",
       {"mup", "umup", "completep"},
       "No learning rate follows from a width. `optimizer.parameter_groups` gives groups of parameters their "
       "own lr_factor and weight_decay."},
      {"Dropout", {"dropout"}, "No layer has dropout."},
      {"Other formats of 4 and 8 bits",
       {"mxfp4", "int4", "int8"},
       "Products are in fp32, bf16, float8, MXFP8 or NVFP4. Weights in MXFP4 are read, and not written."},
      {"Other architectures",
       {"bert", "t5", "gpt2", "mamba", "ssm", "rwkv", "diffusion", "encoder"},
       "Models are the decoders of docs/models.md. ARCHITECTURE.md says how to add one in C++."},
      {"Images and audio",
       {"multimodal", "vision", "image", "audio", "vlm"},
       "Models read tokens of text. Llama 4 is its text model."},
      {"Models or hooks in Python",
       {"python", "plugin", "callback", "hook"},
       "The program has no Python. Passes, ops and models are C++ (ARCHITECTURE.md)."},
      {"Experiment trackers",
       {"wandb", "mlflow", "comet", "neptune", "clearml", "aim"},
       "metrics.jsonl has a line for each step, which a script can send. `rondo help metrics` lists "
       "TensorBoard, CSV and Prometheus."},
      {"Object stores",
       {"s3", "gcs", "gs", "azure", "http", "https", "minio", "bucket"},
       "Data, checkpoints and run folders are paths of a file system. Mount the store, or copy the files."},
      {"Downloads from the Hugging Face Hub",
       {"hub", "download"},
       "`hf download REPO --local-dir DIR` fetches a folder, which `model.hf_config`, `model.hf_assets_path` "
       "and `checkpoint.initial_load_path` read."},
      {"Serving",
       {"gguf", "vllm", "ollama", "onnx", "awq", "gptq", "tensorrt", "serve", "serving", "inference"},
       "`rondo generate` continues a text for a look. Inference programs read the safetensors folder of "
       "`rondo "
       "convert`."},
      {"Benchmark tasks",
       {"mmlu", "hellaswag", "lm-eval", "lm_eval", "harness", "gsm8k", "benchmark"},
       "`rondo eval` gives loss and perplexity. lm-evaluation-harness runs on the folder of `rondo "
       "convert`."},
      {"Samples of text during a run",
       {"sample", "samples"},
       "`rondo generate RUN` continues a text from the last checkpoint, also while the run trains."},
      {"Sweeps and early stopping",
       {"sweep", "optuna", "hyperparameter", "early"},
       "Start a run for each value; `rondo compare` ranks them (docs/how_to.md). A file STOP in the run "
       "folder "
       "ends a run."},
      {"Statistics of activations",
       {"histogram", "statistics", "activations"},
       "Metrics have the gradient norm and the load of experts. `debug.hash_every` hashes the state."},
      {"Training of tokenizers",
       {"bpe", "unigram", "wordpiece"},
       "Tokenizers are read. Hugging Face's tokenizers and SentencePiece train them (docs/tutorial.md)."},
      {"Preparation of data",
       {"dedup", "deduplicate", "crawl", "clean", "filter"},
       "Text is trained on as it is. `rondo data tokenize` turns it into tokens, and counts what it leaves "
       "out."},
      {"Elastic training",
       {"elastic", "torchft"},
       "The number of ranks is fixed while a run trains. A checkpoint resumes on any number of ranks."},
      {"Other accelerators",
       {"amd", "rocm", "hip", "tpu", "xla", "gaudi", "xpu", "mps", "metal", "trainium"},
       "Devices are CPUs and NVIDIA GPUs; the CUDA kernels are built for compute capability 9.0."},
      {"Other systems", {"windows", "macos", "mac", "freebsd"}, "Rondo runs on Linux."},
  };
  return list;
}

}  // namespace rondo
