"""Published training runs, one row each, as `rondo plan` plans them. benchmarks/backcast.py compares.

A row has what its authors say of model, layout, batch, precision and recomputation. What is known of how their program
and cluster differ from Rondo's is in it too: the ops that are one kernel (PROGRAMS), the attention kernel, copies, the
network. None of the programs computes while activations travel. MPT and GPT-2 rows have SwiGLU with as many parameters.
"""
import collections

LIMITED = "h100-96gb"  # of torchtitan's published runs: 96 GB of HBM2e at 2.4 TB/s, 500 W
# Attention kernels over the kernel of the plan, which reaches 644 of 989 TFLOP/s. FlashAttention-2 reaches 35 % of a Hopper
# (abstract of the FlashAttention-3 paper), and is twice as fast as FlashAttention-1 (its own abstract), whose Triton kernel
# llm-foundry's benchmarks had (submit_benchmarks.py). FlexAttention's Triton kernels have 90 % of the speed of
# FlashAttention-2 forward and 85 % backward (its authors' blog). torchtitan puts cuDNN, the plan's kernel, first since
# October 2025 (#1776), and its DeepSeek-V3 has FlexAttention.
FLASH_ATTENTION_2 = {"attention": 0.35 / (644 / 989)}
TRITON_ATTENTION = {"attention": FLASH_ATTENTION_2["attention"] / 1.8}
TRITON_ATTENTION_A100 = {"attention": 1 / 1.8}
FLEX_ATTENTION = {"attention": FLASH_ATTENTION_2["attention"] * 0.87}
# NCCL's protocol LL reaches 141 GB/s in a node of Hoppers (llMaxBws in its tuning.cc), of the 360 that the plan has. It is the
# one that KempnerForge's profile shows for all gathers and reductions under tensor parallelism.
NCCL_LL = {"links": 141 / 360}
FLASH_ATTENTION_2_SOURCES = {"torchtitan docs", "torchtitan, 405B", "torchtitan, async TP", "Trainy", "torchao", "fms-fsdp"}

# Programs whose tensor parallelism divides dim 1 of activations of [batch, length, width].
DIM_1_SOURCES = {"torchtitan docs", "torchtitan, 405B", "torchtitan, async TP", "#1881", "#3429", "#3455", "#3141", "KempnerForge"}

# torchtitan's eager Llama of 2024: bytes of a token and layer beyond those of one kernel for each norm, rotation and SwiGLU.
# A norm is six kernels over fp32 and bf16 (36 bytes an element in place of 4), twice as many backward, and once more
# recomputed; a rotation three in fp32 (20 in place of 4); SwiGLU two (10 in place of 6) and 8 bytes more backward.
EAGER_LLAMA_SOURCES = {"torchtitan docs", "torchtitan, A100", "torchtitan, 405B"}


def eager_bytes(dim, heads_width, ffn_width):
    return 2 * dim * 4 * 32 + heads_width * 3 * 16 + ffn_width * (2 * 4 + 8)


WHOLE_LOSS = ["compile.numerics=rounds", "compile.loss_chunks=-1"]
LOSS_IN_CHUNKS = ["compile.numerics=rounds", "compile.loss_chunks=8"]
# How a published program differs from the planned step: which of its ops are one kernel. Norms, SwiGLU and rotations are
# one each in every plan.
PROGRAMS = {
    "separate ops": ["compile.disable_passes=fuse_add_rms_norm"],
    "RMSNorm": WHOLE_LOSS,
    "RMSNorm, loss in chunks": LOSS_IN_CHUNKS,
    "compiled": WHOLE_LOSS,
    "compiled, loss in chunks": LOSS_IN_CHUNKS,
    "Rondo": ["compile.numerics=rounds"],
}

LLAMA_8B, LLAMA_70B, LLAMA_405B, DEEPSEEK_16B, DEEPSEEK_671B, KIMI_K2, GPT_OSS_20B, GPT_OSS_120B, QWEN_30B = (
    f"configs/{name}.toml" for name in ("llama3_8b", "llama3_70b", "llama3_405b", "deepseek_v3_16b", "deepseek_v3_671b",
                                        "kimi_k2_1t", "gpt_oss_20b", "gpt_oss_120b", "qwen3_30b_a3b"))

# Of a layer and token, and the layers.
EAGER_BYTES = {LLAMA_8B: 32 * eager_bytes(4096, 5120, 14336), LLAMA_70B: 80 * eager_bytes(8192, 9216, 28672),
               LLAMA_405B: 126 * eager_bytes(16384, 17408, 53248)}

# Why a program is of another kind than Rondo: its row is printed, and counts for no class.
RING = "attention in pieces that ranks pass around"
LOW_LATENCY = "NCCL's protocol LL for large messages"
SLOW_ROWWISE = "its authors call this baseline slow (#1207)"
OTHER_NETWORK = "a network that is not stated: 31 % slower than on 8"
OFFLOADED = "what it offloads is not stated"
HOST_BOUND = "a host that is late: launched op by op after each exchange"
FUSED_QUANTIZATION = "kernels that also quantize"

Row = collections.namedtuple("Row", "what source device ranks config program overrides tokens_per_s gib rates gpus_per_node apart",
                             defaults=({}, None, ""))


def policy(name):
    return f"compile.memory_policy={name}"


def batch(size):
    return f"training.local_batch_size={size}"


def length(tokens):
    return f"training.seq_len={tokens}"


def in_all(sequences):
    """The sequences of a step, which is accumulated."""
    return f"training.global_batch_size={sequences}"


def experts(degree, size):
    return [f"parallelism.expert_parallel_degree={degree}", "parallelism.expert_parallel_comm_backend=standard",
            "parallelism.expert_capacity_factor=1", batch(size)]


def once(experts_of_a_token, nodes=1):
    """DeepEP sends a token once to a node, Rondo once to each of its experts. The balanced routing of Automodel's benchmarks
    gives a token experts that follow each other (arange % experts), so they are in one node."""
    return {"exchange": experts_of_a_token / nodes}


# #2107 trains on c4, and torchtitan forces balanced routing only if asked (debug.moe_force_load_balance). 8 of 256 experts that
# may be anywhere are on 3.6 of the 4 nodes that share them. For routing as text gives it, DeepEP's kernels are 1.61 times as fast
# as NCCL's exchange on 16 H100 in two nodes, besides sending tokens once (DeepSpeed, #8213).
FREE_ROUTING = {"DeepEP": once(8, nodes=3.6), "NCCL": {"exchange": 1 / 1.61}}


def sizes(dim, layers, heads, kv_heads, width, vocabulary, tied=False):
    return [f"model.dim={dim}", f"model.n_layers={layers}", f"model.n_heads={heads}", f"model.n_kv_heads={kv_heads}",
            f"model.ffn_hidden_dim={width}", f"model.vocab_size={vocabulary}", f"model.tie_embeddings={str(tied).lower()}",
            "model.rope_scaling_factor=1"]


TP, CP, REPLICAS = (f"parallelism.{name}_degree=" for name in ("tensor_parallel", "context_parallel", "data_parallel_replicate"))
GATHERED_ONCE = ["parallelism.fsdp_reshard_after_forward=never"]
ONCE_A_STEP = "parallelism.fsdp_gradient_sync=step"
# Recipes of Megatron Bridge give each stage as many layers, and the last one the head beside them: account_for_loss_in_pipeline_split
# is False (recipes/gpt_oss/gpt_oss.py of v0.3.0).
EVEN_LAYERS = [f"parallelism.pipeline_parallel_{stage}_stage_less_layers=0" for stage in ("first", "last")]
# torchtitan divided a pass into as many microbatches as the pipeline had ranks (9dec370, pipelining_utils.py).
MICROBATCHES_OF_4 = "parallelism.pipeline_parallel_microbatch_size=4"


def pipeline(degree, schedule, size, recomputed="full"):
    """A pipeline of so many ranks, and a step of one pass over `size` sequences of a rank; torch reduces once a pass."""
    return [f"parallelism.pipeline_parallel_degree={degree}", f"parallelism.pipeline_parallel_schedule={schedule}",
            ONCE_A_STEP, batch(size), policy(recomputed)]


def float8(recipe):
    """With one scale a matrix the published programs gather float8; with a scale a row they gather bf16."""
    gathers = ["compile.disable_passes=quantize_before_gather"] if recipe == "rowwise" else []
    return ["model.converters=float8", "quantize.linear.float8.filter_fqns=output", f"quantize.linear.float8.recipe_name={recipe}",
            *gathers]


QWEN_0_5B = sizes(896, 24, 14, 2, 4864, 151936, tied=True)
QWEN_1_5B = sizes(1536, 28, 12, 2, 8960, 151936, tied=True)
QWEN_3B = sizes(2048, 36, 16, 2, 11008, 151936, tied=True)
QWEN_7B = sizes(3584, 28, 28, 4, 18944, 152064)
MPT = {"1b": sizes(2048, 24, 16, 16, 5504, 50368, tied=True), "3b": sizes(2560, 32, 32, 32, 6912, 50368, tied=True),
       "7b": sizes(4096, 32, 32, 32, 11008, 50368, tied=True), "13b": sizes(5120, 40, 40, 40, 13824, 50368, tied=True),
       "30b": sizes(7168, 48, 56, 56, 19200, 50368, tied=True), "70b": sizes(8192, 80, 64, 64, 22016, 50368, tied=True)}

# Tokens/s and GiB of a GPU; None: not published.
EARLIER = [
    Row("8B, local batch 2, eager", "torchtitan docs", LIMITED, 8, LLAMA_8B, "separate ops", [batch(2), policy("eager")], 5762, 82.4),
    Row("8B, local batch 2, torch.compile", "torchtitan docs", LIMITED, 8, LLAMA_8B, "compiled", [batch(2), policy("eager")], 6667, 77.0),
    Row("8B on 128, eager", "torchtitan docs", LIMITED, 128, LLAMA_8B, "separate ops", [batch(2), policy("eager")], 5605, 67.0),
    Row("8B on 128, torch.compile", "torchtitan docs", LIMITED, 128, LLAMA_8B, "compiled", [batch(2), policy("eager")], 6514, 62.0),
    Row("8B on 64, op-wise recomputation", "torchtitan, A100", "a100-80gb", 64, LLAMA_8B, "separate ops", [batch(1), policy("eager")], 2973, None),
    Row("70B on 64, full recomputation", "torchtitan, A100", "a100-80gb", 64, LLAMA_70B, "separate ops", [batch(1), policy("full")], 331, None),
    Row("405B on 128, FSDP 16 x TP 8", "torchtitan, 405B", LIMITED, 128, LLAMA_405B, "separate ops", [batch(2), TP + "8", policy("full")], 109, None),
    Row("70B on 256, FSDP 32 x TP 8", "torchtitan, async TP", LIMITED, 256, LLAMA_70B, "compiled", [batch(16), TP + "8", policy("full")], 597, None),
    Row("8B, SimpleFSDP", "#1881", LIMITED, 8, LLAMA_8B, "RMSNorm", [policy("eager")], 7227, 40.96),
    Row("8B, FSDP2 eager", "#1881", LIMITED, 8, LLAMA_8B, "RMSNorm", [policy("eager")], 7380, 47.82),
    Row("8B on 64, SimpleFSDP", "#1881", LIMITED, 64, LLAMA_8B, "RMSNorm", [policy("eager")], 4984, 29.37, apart=OTHER_NETWORK),
    Row("8B on 64, FSDP2 eager", "#1881", LIMITED, 64, LLAMA_8B, "RMSNorm", [policy("eager")], 5097, 31.41, apart=OTHER_NETWORK),
    Row("8B, FSDP 4 x TP 2, SimpleFSDP", "#1881", LIMITED, 8, LLAMA_8B, "RMSNorm", [TP + "2", policy("eager")], 5881, 28.28),
    Row("8B, FSDP 4 x TP 2, FSDP2 eager", "#1881", LIMITED, 8, LLAMA_8B, "RMSNorm", [TP + "2", policy("eager")], 5898, 35.33),
    Row("8B, policy default", "#3429", LIMITED, 8, LLAMA_8B, "RMSNorm", [policy("default")], 7890, 52.44),
    Row("8B, policy full", "#3429", LIMITED, 8, LLAMA_8B, "RMSNorm", [policy("full")], 7006, 32.07),
    Row("8B, FSDP 4 x TP 2, policy default", "#3429", LIMITED, 8, LLAMA_8B, "RMSNorm", [TP + "2", policy("default")], 6607, 30.92),
    Row("8B, FSDP 4 x TP 2, policy full", "#3429", LIMITED, 8, LLAMA_8B, "RMSNorm", [TP + "2", policy("full")], 5933, 20.70),
    Row("8B, full inductor, CUDA graph", "#3455", LIMITED, 8, LLAMA_8B, "compiled", [policy("default")], 7403, None),
    Row("8B, TP 8, full inductor, CUDA graph", "#3455", LIMITED, 8, LLAMA_8B, "compiled", [TP + "8", policy("default")], 3916, None),
    Row("8B, policy sac_and_offload", "#3457", LIMITED, 8, LLAMA_8B, "RMSNorm", [policy("sac_and_offload")], 7301, None, apart=OFFLOADED),
    Row("8B, FSDP 4 x TP 2, full inductor", "#3141", LIMITED, 8, LLAMA_8B, "compiled", [TP + "2", policy("default")], 7522, 38.40),
    Row("16B, EP 8, local batch 4, policy default", "#3429", LIMITED, 8, DEEPSEEK_16B, "RMSNorm", [*experts(8, 4), policy("default")], 8325, 84.78, FLEX_ATTENTION, apart=HOST_BOUND),
    Row("16B, EP 8, local batch 4, policy full", "#3429", LIMITED, 8, DEEPSEEK_16B, "RMSNorm", [*experts(8, 4), policy("full")], 7444, 52.02, FLEX_ATTENTION, apart=HOST_BOUND),
    *(Row(f"16B, EP 4, local batch {size}, {name}", "dsv3_scaling", LIMITED, 8, DEEPSEEK_16B, program,
          [*experts(4, size), policy("full")], speed, gib, FLEX_ATTENTION)
      for name, size, program, speed, gib in (
          ("CUDA graph", 8, "RMSNorm, loss in chunks", 12103, 43.42), ("CUDA graph", 16, "RMSNorm, loss in chunks", 12310, 57.31),
          ("FSDP2 eager", 16, "RMSNorm, loss in chunks", 12540, 65.67),
          ("full inductor", 8, "compiled, loss in chunks", 12554, 55.71), ("full inductor", 16, "compiled, loss in chunks", 12840, 75.48))),
    Row("8B, 4096 tokens, full recomputation", "KempnerForge", "h200", 1, LLAMA_8B, "compiled",
        [batch(1), "training.seq_len=4096", "training.dtype=bfloat16", policy("full")], 10471, None),
    Row("1.5B, 16 x 1024 tokens", "LLMQ", "h100", 1, LLAMA_8B, "compiled, loss in chunks",
        [*QWEN_1_5B, "training.seq_len=1024", batch(16), "training.dtype=bfloat16", policy("none")], 58900, None),
    Row("8B, tensorwise", "torchtitan docs", LIMITED, 8, LLAMA_8B, "compiled", [batch(2), policy("eager"), *float8("tensorwise")], 8532, 76.8),
    Row("8B on 128, tensorwise", "torchtitan docs", LIMITED, 128, LLAMA_8B, "compiled", [batch(2), policy("eager"), *float8("tensorwise")], 8380, 61.8),
    Row("70B on 256, FSDP 32 x TP 8, tensorwise", "torchtitan, async TP", LIMITED, 256, LLAMA_70B, "compiled",
        [batch(16), TP + "8", policy("full"), *float8("tensorwise")], 810, None),
    Row("70B on 256, FSDP 32 x TP 8, rowwise", "torchtitan, async TP", LIMITED, 256, LLAMA_70B, "compiled",
        [batch(16), TP + "8", policy("full"), *float8("rowwise")], 600, None, apart=SLOW_ROWWISE),
    Row("8B on 32, tensorwise", "Trainy", "h200", 32, LLAMA_8B, "compiled", [batch(2), policy("eager"), *float8("tensorwise")], 10938, 47.96),
    Row("405B on 512, FSDP 8 x TP 8 x PP 8, 1F1B, tensorwise", "torchtitan docs", LIMITED, 512, LLAMA_405B, "compiled",
        [TP + "8", *pipeline(8, "1F1B", 32), MICROBATCHES_OF_4, *float8("tensorwise")], 100, 82.5),
    Row("405B on 512, FSDP 8 x TP 8 x PP 8, Interleaved1F1B, tensorwise", "torchtitan docs", LIMITED, 512, LLAMA_405B, "compiled",
        [TP + "8", *pipeline(8, "Interleaved1F1B", 32), MICROBATCHES_OF_4, *float8("tensorwise")], 128, 72.7),
    *(Row(f"671B on 512, FSDP 64 x EP 32 x PP 8, {name}", "#2107", "h100", 512, DEEPSEEK_671B, "compiled",
          [TP + "1", *experts(32, 16), "parallelism.expert_overflow=drop", *pipeline(8, "Interleaved1F1B", 16)], speed, gib,
          FLEX_ATTENTION | FREE_ROUTING[name])
      for name, speed, gib in (("NCCL", 346, 60.18), ("DeepEP", 579, 56.75))),
]


def mpt(size, device, ranks, micro, tokens_per_s, recomputes, steps=1, tokens=2048):
    """A row of llm-foundry's tables: micro batch size, micro batches a step."""
    return Row(f"MPT {size}, {micro} x {tokens:,} tokens", "llm-foundry", device, ranks, LLAMA_8B, "separate ops",
               [*MPT[size], length(tokens), batch(micro), in_all(micro * steps * ranks), policy("full" if recomputes else "none")],
               tokens_per_s, None, TRITON_ATTENTION if device == "h100" else TRITON_ATTENTION_A100)


def fms(model, ranks, device, size, tokens_per_s, recomputed, overrides=()):
    """A row of fms-fsdp's table, whose nodes have a quarter of the device's network."""
    return Row(f"Llama 2 {model}, 2 x 4,096 tokens", "fms-fsdp", device, ranks, LLAMA_8B, "compiled",
               [*size, length(4096), batch(2), policy(recomputed), *overrides], tokens_per_s, None, {"network": 0.25})


def kempner(what, ranks, config, size, batches, tokens_per_s, gib, *overrides):
    micro, steps = batches
    shards = ranks
    for override in overrides:
        if override.startswith(TP):
            shards = ranks // int(override[len(TP):])
    return Row(what, "KempnerForge", "h200", ranks, config, "compiled",
               [*size, length(4096), batch(micro), in_all(micro * steps * shards), policy("full"), *overrides], tokens_per_s, gib,
               *((NCCL_LL, 4, LOW_LATENCY) if shards < ranks else ({}, 4)))


def llmq(what, device, size, micro, tokens_per_s, *overrides, apart=""):
    """A row of LLMQ's tables, in sequences of 1,024 tokens and with a batch of about 524,288."""
    return Row(f"{what}, {micro} x 1,024 tokens", "LLMQ", device, 1, LLAMA_8B, "compiled, loss in chunks",
               [*size, length(1024), batch(micro), in_all(512 // micro * micro), "training.dtype=bfloat16", policy("none"),
                *overrides], tokens_per_s, None, apart=apart)


def ours(what, tokens_per_s, *overrides):
    """A row of docs/results/gpu_check_2026-11-26.md."""
    return Row(what, "Rondo", "h200", 1, LLAMA_8B, "Rondo", ["training.dtype=bfloat16", length(4096), *overrides], tokens_per_s, None)


LLAMA_2_7B, LLAMA_2_13B, LLAMA_2_34B, LLAMA_2_70B = (
    sizes(4096, 32, 32, 32, 11008, 32000), sizes(5120, 40, 40, 40, 13824, 32000),
    sizes(8192, 48, 64, 8, 22016, 32000), sizes(8192, 80, 64, 8, 28672, 32000))
LLAMA_15B = sizes(5120, 40, 40, 8, 17920, 128256)
LONG = [policy("full"), batch(1)]

# The planner had not seen these when its constants were decided: the review of 2026-11-25 and the check of a GPU after it.
LATER = [
    ours("8B, one batch", 11308),
    ours("8B, batch of 2", 12014, batch(2)),
    ours("8B, 8,192 tokens", 11051, length(8192)),
    ours("8B, 8 microbatches", 11166, in_all(8)),
    ours("8B, everything recomputed", 9271, policy("full")),
    ours("8B, exact", 11298, "compile.numerics=exact"),
    ours("8B, tensorwise", 14157, *float8("tensorwise")),
    ours("8B, blockwise", 13342, *float8("blockwise")),
    mpt("1b", "a100-80gb", 8, 14, 20513, False, 4),
    mpt("3b", "a100-80gb", 8, 10, 10811, False, 2),
    mpt("7b", "a100-80gb", 8, 6, 4641, False, 2),
    mpt("13b", "a100-80gb", 8, 2, 2262, False, 3),
    mpt("30b", "a100-80gb", 8, 3, 916, True, 21),
    mpt("70b", "a100-80gb", 64, 8, 410, True, 4),
    mpt("13b", "a100-80gb", 8, 5, 1795, True, 3, 8192),
    mpt("7b", "a100-80gb", 8, 1, 1013, True, 2, 65536),
    mpt("3b", "a100-40gb", 64, 6, 9736, False),
    mpt("7b", "a100-40gb", 16, 16, 3645, True),
    mpt("13b", "a100-40gb", 128, 16, 1972, True),
    mpt("30b", "a100-40gb", 128, 6, 865, True),
    mpt("70b", "a100-40gb", 128, 4, 376, True),
    mpt("1b", "h100", 8, 14, 45455, False),
    mpt("7b", "h100", 8, 6, 10643, False),
    mpt("3b", "h100", 64, 6, 22525, False, 3),
    mpt("7b", "h100", 128, 6, 10475, False),
    mpt("7b", "h100", 512, 6, 9670, False),
    mpt("13b", "h100", 128, 16, 5080, True),
    mpt("30b", "h100", 256, 8, 2148, True),
    mpt("70b", "h100", 128, 8, 1058, True),
    mpt("70b", "h100", 512, 8, 1007, True),
    mpt("7b", "h100", 8, 2, 3318, True, 2, 32768),
    fms("7b", 128, "a100-80gb", LLAMA_2_7B, 4550, "none", [REPLICAS + "16"]),
    fms("13b", 128, "a100-80gb", LLAMA_2_13B, 2150, "eager"),
    fms("34b", 128, "a100-80gb", LLAMA_2_34B, 820, "full"),
    fms("70b", 128, "a100-80gb", LLAMA_2_70B, 410, "full"),
    fms("7b", 96, "h100", LLAMA_2_7B, 9600, "none", [REPLICAS + "12"]),
    fms("13b", 96, "h100", LLAMA_2_13B, 4850, "eager"),
    fms("34b", 96, "h100", LLAMA_2_34B, 1830, "full"),
    fms("70b", 96, "h100", LLAMA_2_70B, 890, "full"),
    Row("1.1B, 8 x 2,048 tokens", "TinyLlama", "a100-40gb", 8, LLAMA_8B, "compiled",
        [*sizes(2048, 22, 32, 4, 5632, 32000), length(2048), batch(8), policy("none")], 24000, None),
    kempner("8B, FSDP 2", 2, LLAMA_8B, [], (4, 2), 9364, 62.4),
    kempner("8B, FSDP 4", 4, LLAMA_8B, [], (4, 2), 9746, 61.1),
    kempner("8B, TP 2", 2, LLAMA_8B, [], (4, 2), 6582, 57.8, TP + "2"),
    kempner("8B, TP 4", 4, LLAMA_8B, [], (4, 2), 6284, 39.4, TP + "4"),
    kempner("8B, FSDP 2 x TP 2", 4, LLAMA_8B, [], (4, 2), 6495, 45.9, TP + "2"),
    kempner("8B, FSDP 8 x TP 4", 32, LLAMA_8B, [], (4, 2), 4872, 27.6, TP + "4"),
    kempner("14.8B, FSDP 4 x TP 4", 16, LLAMA_8B, LLAMA_15B, (4, 4), 3363, 39.2, TP + "4"),
    kempner("14.8B, FSDP 8 x TP 4", 32, LLAMA_8B, LLAMA_15B, (4, 4), 3260, 36.3, TP + "4"),
    kempner("70B, FSDP 8 x TP 4", 32, LLAMA_70B, [], (2, 4), 552, 93.2, TP + "4"),
    Row("8B, torchao, bf16", "torchao", LIMITED, 8, LLAMA_8B, "compiled", [policy("eager")], 6150, 47.65),
    Row("8B, torchao, tensorwise", "torchao", LIMITED, 8, LLAMA_8B, "compiled", [policy("eager"), *float8("tensorwise")], 7690, 47.77),
    Row("8B, torchao, rowwise", "torchao", LIMITED, 8, LLAMA_8B, "compiled", [policy("eager"), *float8("rowwise")], 6768, 47.79),
    *(Row(f"8B, FSDP {8 // cp} x CP {cp}, {32768 * cp:,} tokens, tensorwise", "torchtitan docs", LIMITED, 8, LLAMA_8B, "compiled",
          [*LONG, CP + str(cp), length(32768 * cp), *float8("tensorwise"),
           *(["model.max_seq_len=262144"] if cp == 8 else [])], speed, 84, apart=RING if cp > 1 else "")
      for cp, speed in ((1, 3890), (2, 2540), (4, 1071), (8, 548))),
    *(Row(f"405B on 512, FSDP {8 // cp} x CP {cp} x TP 8 x PP 8, {32768 * cp:,} tokens, tensorwise", "torchtitan docs", LIMITED, 512,
          LLAMA_405B, "compiled", [TP + "8", CP + str(cp), length(32768 * cp), *pipeline(8, "1F1B", 8), *float8("tensorwise")],
          speed, gib, apart=RING if cp > 1 else "") for cp, speed, gib in ((1, 76, 75.3), (2, 47, 75.9), (4, 31, 77.1))),
    *(Row(f"8B on 64, FSDP 8 x TP 8{name}", "torchtitan, async TP", LIMITED, 64, LLAMA_8B, "compiled",
          [batch(12), TP + "8", policy("eager"), *keys], speed, None, apart=apart)
      for name, keys, speed, apart in (("", [], 4378, ""), (", tensorwise", float8("tensorwise"), 5078, ""),
                                       (", rowwise", float8("rowwise"), 3708, SLOW_ROWWISE))),
    *(Row(f"405B on {ranks:,}, TP 8 x PP 16", "Llama 3 paper", "h100", ranks, LLAMA_405B, "compiled",
          [TP + "8", *GATHERED_ONCE, *pipeline(16, "Interleaved1F1B", size, "none")], speed, None)
      for ranks, size, speed in ((8192, 32, 164), (16384, 16, 152))),
    Row("8B, 16 microbatches, tensorwise", "Megatron Bridge", "h100", 8, LLAMA_8B, "compiled",
        [batch(1), in_all(128), policy("none"), *float8("tensorwise")], 14451, None),
    Row("70B on 64, TP 4 x PP 8, 5 stages a rank, tensorwise", "Megatron Bridge", "h100", 64, LLAMA_70B, "compiled",
        [TP + "4", *GATHERED_ONCE, *pipeline(8, "Interleaved1F1B", 128, "none"), "parallelism.pipeline_parallel_layers_per_stage=2",
         *EVEN_LAYERS, *float8("tensorwise")], 1621, None),
    Row("8B, 8 microbatches of 2, tensorwise", "Megatron Bridge", "b200", 8, LLAMA_8B, "compiled",
        [batch(2), in_all(128), policy("none"), *GATHERED_ONCE, ONCE_A_STEP, *float8("tensorwise")], 30624, None),
    Row("8B, 8 microbatches of 2, tensorwise", "Megatron Bridge", "gb200", 8, LLAMA_8B, "compiled",
        [batch(2), in_all(128), policy("none"), *GATHERED_ONCE, ONCE_A_STEP, *float8("tensorwise")], 31508, None),
    Row("8B, 8 microbatches of 2, tensorwise", "Megatron Bridge", "gb300", 8, LLAMA_8B, "compiled",
        [batch(2), in_all(128), policy("none"), *GATHERED_ONCE, ONCE_A_STEP, *float8("tensorwise")], 37556, None),
    Row("70B on 64, 2 microbatches of 2, tensorwise", "Megatron Bridge", "gb200", 64, LLAMA_70B, "compiled",
        [batch(2), in_all(256), policy("none"), *float8("tensorwise")], 4312, None),
    Row("70B on 64, 2 microbatches of 2, tensorwise", "Megatron Bridge", "gb300", 64, LLAMA_70B, "compiled",
        [batch(2), in_all(256), policy("none"), *float8("tensorwise")], 4520, None),
    *(Row(f"gpt-oss 120B on 64, EP {ep}", "Megatron Bridge", device, 64, GPT_OSS_120B, "compiled",
          [*experts(ep, 4), in_all(1280), policy("none"), *GATHERED_ONCE, ONCE_A_STEP], speed, None)
      for device, ep, speed in (("gb200", 64, 15784), ("gb300", 64, 19412))),
    Row("gpt-oss 120B on 64, PP 4 x EP 8", "Megatron Bridge", "h100", 64, GPT_OSS_120B, "compiled",
        [*experts(8, 80), "parallelism.expert_overflow=drop", *GATHERED_ONCE, *pipeline(4, "1F1B", 80, "none"), *EVEN_LAYERS], 5993,
        None),
    Row("Qwen3 30B-A3B, EP 8, 16 microbatches of 4", "Automodel", "h100", 8, QWEN_30B, "compiled",
        [*experts(8, 4), in_all(512), policy("none")], 12040, None, once(8)),
    Row("gpt-oss 20B, EP 8, 16 microbatches of 2", "Automodel", "h100", 8, GPT_OSS_20B, "compiled",
        [*experts(8, 2), in_all(256), policy("none")], 13058, None, once(4)),
    Row("gpt-oss 120B on 64, EP 64, 4 microbatches of 2", "Automodel", "h100", 64, GPT_OSS_120B, "compiled",
        [*experts(64, 2), in_all(512), policy("none")], 7626, None, once(4)),
    Row("671B on 256, PP 4 x EP 64, 4 stages a rank", "Automodel", "h100", 256, DEEPSEEK_671B, "compiled",
        [TP + "1", *experts(64, 8), "parallelism.expert_overflow=drop", *pipeline(4, "Interleaved1F1B", 8)], 1002, None, once(8)),
    Row("Kimi K2 on 256, PP 8 x EP 32, 4 stages a rank", "Automodel", "h100", 256, KIMI_K2, "compiled",
        [TP + "1", *experts(32, 8), "parallelism.expert_overflow=drop", *pipeline(8, "Interleaved1F1B", 8)], 924, None, once(8)),
    llmq("0.5B", "h100", QWEN_0_5B, 32, 144000),
    llmq("3B", "h100", QWEN_3B, 8, 30000),
    llmq("7B", "h100", QWEN_7B, 4, 14000),
    llmq("1.5B, E4M3", "h100", QWEN_1_5B, 16, 68000, *float8("tensorwise"), apart=FUSED_QUANTIZATION),
    llmq("3B, E4M3", "h100", QWEN_3B, 16, 39000, *float8("tensorwise"), apart=FUSED_QUANTIZATION),
    llmq("0.5B", "rtx4090", QWEN_0_5B, 8, 40000),
    llmq("1.5B", "rtx4090", QWEN_1_5B, 4, 14000),
    llmq("0.5B", "l40s", QWEN_0_5B, 16, 42000),
    llmq("1.5B", "l40s", QWEN_1_5B, 8, 17000),
    llmq("3B", "l40s", QWEN_3B, 4, 8900),
    llmq("0.5B", "rtxpro6000", QWEN_0_5B, 32, 85000),
    llmq("1.5B", "rtxpro6000", QWEN_1_5B, 32, 32000),
    llmq("3B", "rtxpro6000", QWEN_3B, 16, 17000),
    llmq("7B", "rtxpro6000", QWEN_7B, 4, 8000),
    Row("GPT-2 1558M, 16 x 1,024 tokens", "llm.c", "h100", 8, LLAMA_8B, "compiled",
        [*sizes(1600, 48, 25, 25, 4352, 50304, tied=True), length(1024), batch(16), in_all(1024), "training.dtype=bfloat16",
         policy("none"), *GATHERED_ONCE, ONCE_A_STEP], 47663, None),
]


ROWS = [*EARLIER, *LATER]
