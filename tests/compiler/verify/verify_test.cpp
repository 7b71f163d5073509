// Breaks each rule of the verifier in a graph of a few nodes and checks the message.
#include "compiler/verify/verify.h"

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

#include "compiler/text/text.h"
#include "support/error.h"

using namespace rondo;
using namespace rondo::ir;

namespace {

std::set<std::string>& broken_rules() {
  static std::set<std::string> names;
  return names;
}

// Returns the verifier's message for the graph, without its constant start, and records the rule.
std::string breach(const Graph& graph) {
  try {
    verify(graph, "a pass");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::graph);
    const std::string message = error.what(), start = "the graph g breaks rule ";
    CHECK(message.substr(0, start.size()) == start);
    const std::string rest = message.substr(start.size());
    broken_rules().insert(rest.substr(0, rest.find(' ')));
    return rest;
  }
  return "";
}

constexpr std::string_view kInputs =
    "graph g\nparameter %0: f32[8] w\nbuffer %1: f32[8] state\nbatch %2: f32[8] x\nforward layers.0\n";

Graph graph_of(const std::string& nodes) { return parse(std::string(kInputs) + nodes, "x.ir"); }
std::string breach_of(const std::string& nodes) { return breach(graph_of(nodes)); }

}  // namespace

TEST_CASE("a valid graph passes") {
  CHECK(breach_of("  %3: f32[8] = aten.neg.default(%2)\nreturn\n  y = %3\n").empty());
  CHECK(breach_of("update\n  %3: f32[8] writes %1 = aten.neg_.default(%1)\nreturn\n  s = %3 -> state\n")
            .empty());
}

TEST_CASE("each rule of the verifier refuses a graph of this test with its message") {
  SECTION("there is one return node, the last, and it returns values") {
    CHECK(breach_of("  %3: f32[8] = aten.neg.default(%2)\n") ==
          "return_is_last after a pass: the last node is not return");
    CHECK(breach_of("  return(%2)\nreturn\n  y = %2\n") ==
          "return_is_last after a pass: node 0 (return, module layers.0) return is not the last node");
    CHECK(breach_of("  return(1)\n") ==
          "return_is_last after a pass: node 0 (return, module layers.0) return has an argument that is not "
          "a value");
    CHECK(breach_of("  %3: f32[8] = return(%2)\n") ==
          "return_is_last after a pass: node 0 (return, module layers.0) return has a result");
  }

  SECTION("values are defined once, before their use") {
    Graph graph = graph_of(
        "  %3: f32[8] = aten.neg.default(%2)\n  %4: f32[8] = aten.exp.default(%3)\nreturn\n  y = %4\n");
    Graph swapped = graph;
    std::swap(swapped.nodes[0], swapped.nodes[1]);
    CHECK(breach(swapped) ==
          "defined_once_above_use after a pass: node 0 (aten.exp.default, module layers.0) reads %3, which "
          "is not defined before");
    Graph twice = graph;
    twice.nodes[1].results = {3};
    CHECK(breach(twice) ==
          "defined_once_above_use after a pass: node 1 (aten.exp.default, module layers.0) %3 is defined a "
          "second time");
    Graph wild = graph;
    wild.nodes[1].results = {77};
    CHECK(breach(wild) ==
          "defined_once_above_use after a pass: node 1 (aten.exp.default, module layers.0) %77 is not a "
          "value of this graph");
    Graph absent = graph;
    absent.nodes[1].args = {Use{kNoValue}};
    CHECK(breach(absent) ==
          "defined_once_above_use after a pass: node 1 (aten.exp.default, module layers.0) reads %-1, which "
          "is not defined before");
  }

  SECTION("inputs have unique names and are not views") {
    Graph graph = graph_of("return\n  y = %2\n");
    Graph named = graph;
    named.inputs[1].name = "w";
    CHECK(breach(named) == "inputs_are_named_once after a pass: two inputs are named \"w\"");
    graph.value(1).views = 0;
    CHECK(breach(graph) ==
          "inputs_are_named_once after a pass: input \"state\" is marked as a view or a write");
  }

  SECTION("types have a stride for each size, and neither is negative") {
    Graph graph = graph_of("  %3: f32[8] = aten.neg.default(%2)\nreturn\n  y = %3\n");
    graph.value(3).type.strides = {};
    CHECK(breach(graph) ==
          "types_are_whole after a pass: node 0 (aten.neg.default, module layers.0) %3 has 1 sizes and 0 "
          "strides");
    graph.value(3).type.strides = {-1};
    CHECK(
        breach(graph) ==
        "types_are_whole after a pass: node 0 (aten.neg.default, module layers.0) %3 has a negative size or "
        "stride: "
        "f32[8]{-1}");
  }

  SECTION("views and writes name an operand, and a write keeps its type") {
    CHECK(breach_of("  %3: f32[8] views %1 = aten.alias.default(%2)\nreturn\n  y = %3\n") ==
          "marks_name_operands after a pass: node 0 (aten.alias.default, module layers.0) %3 views or writes "
          "%1, which the "
          "node does not read");
    CHECK(breach_of("  %3: f32[8] views %1 writes %1 = aten.alias.default(%1)\nreturn\n  y = %3\n") ==
          "marks_name_operands after a pass: node 0 (aten.alias.default, module layers.0) %3 both views and "
          "writes");
    CHECK(breach_of("  %3: f32[4] writes %1 = aten.neg_.default(%1)\nreturn\n  y = %3\n") ==
          "marks_name_operands after a pass: node 0 (aten.neg_.default, module layers.0) %3 is f32[4] but "
          "overwrites %1, a "
          "f32[8]");
  }

  SECTION("a result reuses the memory of a value") {
    CHECK(breach_of("  %3: f32[8] = aten.silu_backward.default(1, %2)\nreturn\n  y = %3\n") ==
          "reused_memory_is_a_values after a pass: node 0 (aten.silu_backward.default, module layers.0) its "
          "argument 0 must be a tensor");
  }

  SECTION("ops have the number of results of their op") {
    CHECK(breach_of("  aten.mm.default(%1, %2)\nreturn\n") ==
          "result_counts after a pass: node 0 (aten.mm.default, module layers.0) has no result");
    CHECK(breach_of("  aten.view.default(%1, [8])\nreturn\n") ==
          "result_counts after a pass: node 0 (aten.view.default, module layers.0) has no result");
    CHECK(breach_of("  %3: f32[8] = rondo.rms_norm.default(%1, %2, 0.1)\nreturn\n") ==
          "schemas_are_kept after a pass: node 0 (rondo.rms_norm.default, module layers.0) has 3 arguments "
          "and 1 results, but its schema has 3 and 2");
    CHECK(
        breach_of("  %3: f32[8], %4: f32[8] = rondo.rms_norm.default(%1, 2, 0.1)\nreturn\n") ==
        "schemas_are_kept after a pass: node 0 (rondo.rms_norm.default, module layers.0) its argument 1 must "
        "be a tensor");
    CHECK(breach_of("  %3: f32[8], %4: f32[8] = _c10d_functional.wait_tensor.default(%1)\nreturn\n") ==
          "result_counts after a pass: node 0 (_c10d_functional.wait_tensor.default, module layers.0) has 2 "
          "results; a wait has 1");
    CHECK(breach_of("  %3: f32[8] = rondo.adamw.default([%0], [%1], [%1], [%1])\nreturn\n") ==
          "result_counts after a pass: node 0 (rondo.adamw.default, module layers.0) has 1 results for 3 "
          "tensors");
  }

  SECTION("collectives name a tensor, their group, ranks and reduction") {
    const std::string rule = "moves_are_described after a pass: node 0 (_c10d_functional.";
    CHECK(breach_of("  %3: f32[16] = _c10d_functional.all_gather_into_tensor.default(%2, 1.5, \"dp\")\n"
                    "return\n") == rule +
                                       "all_gather_into_tensor.default, module layers.0) its argument 1 "
                                       "must be a number of ranks");
    CHECK(breach_of("  %3: f32[8] = _c10d_functional.all_reduce.default(%2, \"sum\", 7)\nreturn\n") ==
          rule + "all_reduce.default, module layers.0) its argument 2 must be the name of a group");
    CHECK(breach_of("  %3: f32[8] = _c10d_functional.all_reduce.default(%2, 1, \"dp\")\nreturn\n") ==
          rule + "all_reduce.default, module layers.0) its argument 1 must be the name of a reduction");
    CHECK(breach_of("  %3: f32[8] = _c10d_functional.all_reduce.default(2, \"sum\")\nreturn\n") ==
          rule + "all_reduce.default, module layers.0) its argument 0 must be a tensor");
  }
  SECTION("phases go forward") {
    CHECK(breach_of("update\n  %3: f32[8] = aten.neg.default(%2)\nbackward\n  %4: f32[8] = "
                    "aten.neg.default(%3)\nupdate\nreturn\n  y = %4\n") ==
          "phases_go_forward after a pass: node 1 (aten.neg.default) is a backward node, but reads a result "
          "of a update node");
  }

  SECTION("after a write, no older value of the storage is read through any view") {
    const std::string rule = "nothing_overwritten_is_read after a pass: node ";
    CHECK(breach_of(
              "  %3: f32[8] = aten.neg.default(%2)\n  %4: f32[4,2] views %3 = aten.view.default(%3, [4, 2])\n"
              "  %5: f32[8] writes %3 = aten.exp_.default(%3)\n  %6: f32[4,2] = aten.neg.default(%4)\n"
              "return\n  y = %6\n") ==
          rule +
              "3 (aten.neg.default, module layers.0) reads %4, whose storage node "
              "2 (aten.exp_.default) overwrote");
    CHECK(
        breach_of("  %3: f32[8] writes %1 = aten.exp_.default(%1)\nreturn\n  s = %3 -> state\n  y = %1\n") ==
        rule + "1 (return, module layers.0) reads %1, whose storage node 0 (aten.exp_.default) overwrote");
    CHECK(breach_of("  %3: f32[8] = aten.neg.default(%2)\n  %4: f32[8] views %3 = aten.alias.default(%3)\n"
                    "  %5: f32[8] writes %3, %6: f32[8] writes %4 = rondo.both_.default(%3, %4)\nreturn\n  y "
                    "= %6\n") ==
          rule + "2 (rondo.both_.default, module layers.0) overwrites the storage of %4 twice");
  }

  SECTION("batch inputs are never written") {
    CHECK(breach_of("  %3: f32[4,2] views %2 = aten.view.default(%2, [4, 2])\n"
                    "  %4: f32[4,2] writes %3 = aten.exp_.default(%3)\nreturn\n  y = %4\n") ==
          "batch_inputs_are_not_written after a pass: node 1 (aten.exp_.default, module layers.0) overwrites "
          "the batch "
          "input %2");
  }

  SECTION("collectives have one wait, and their values are not touched before it") {
    const std::string rule = "collectives_are_waited_for after a pass: node ";
    const std::string start = "  %3: f32[8] = _c10d_functional.all_reduce.default(%2, \"sum\", \"dp\")\n";
    const std::string wait = "  %4: f32[8] views %3 = _c10d_functional.wait_tensor.default(%3)\n";
    CHECK(breach_of(start + wait + "return\n  y = %4\n").empty());
    CHECK(breach_of(start + "return\n") == rule +
                                               "0 (_c10d_functional.all_reduce.default, module layers.0) "
                                               "starts work without a wait for it");
    CHECK(breach_of(start + "  %9: f32[8] = aten.neg.default(%3)\n" + wait + "return\n  y = %4\n") ==
          rule + "1 (aten.neg.default, module layers.0) reads %3 before the wait for it");
    CHECK(breach_of(start + wait +
                    "  %5: f32[8] views %3 = _c10d_functional.wait_tensor.default(%3)\nreturn\n") ==
          rule + "2 (_c10d_functional.wait_tensor.default, module layers.0) waits for %3 a second time");
    CHECK(
        breach_of("  %4: f32[8] views %2 = _c10d_functional.wait_tensor.default(%2)\nreturn\n") ==
        rule +
            "0 (_c10d_functional.wait_tensor.default, module layers.0) waits for %2, which no node started");
    CHECK(breach_of(start + "  %4: f32[8] = _c10d_functional.wait_tensor.default(%3)\nreturn\n") ==
          rule +
              "1 (_c10d_functional.wait_tensor.default, module layers.0) %4 does not view the awaited value");
    CHECK(breach_of("  %6: f32[8] = aten.neg.default(%2)\n"
                    "  %3: f32[8] = _c10d_functional.all_reduce.default(%6, \"sum\", \"dp\")\n"
                    "  %7: f32[8] writes %6 = aten.exp_.default(%6)\n" +
                    wait + "return\n  y = %4\n") ==
          rule + "2 (aten.exp_.default, module layers.0) overwrites %6, which a collective still reads");
  }

  SECTION("only transfers touch host memory") {
    const std::string rule = "only_transfers_touch_the_host after a pass: node ";
    const std::string offload =
        "  %3: host f32[8] = rondo.offload.default(%2)\n"
        "  %4: host f32[8] views %3 = rondo.wait_transfer.default(%3)\n";
    CHECK(breach_of(offload + "  %5: f32[8] = aten.neg.default(%4)\nreturn\n  y = %5\n") ==
          rule + "2 (aten.neg.default, module layers.0) reads %4, which is in host memory");
    CHECK(breach_of("  %3: host f32[8] = aten.neg.default(%2)\nreturn\n") ==
          rule + "0 (aten.neg.default, module layers.0) %3 is on the host");
    CHECK(breach_of("  %3: f32[8] = rondo.offload.default(%2)\n"
                    "  %4: f32[8] views %3 = rondo.wait_transfer.default(%3)\nreturn\n") ==
          rule + "0 (rondo.offload.default, module layers.0) %3 is not on the host");
    CHECK(breach_of(offload + "  %5: f32[8] = rondo.reload.default(%4)\n"
                              "  %6: f32[8] views %5 = rondo.wait_transfer.default(%5)\nreturn\n  y = %6\n")
              .empty());
  }

  SECTION("state in host memory is a parameter or of the optimizer, and is updated after its last reload") {
    const auto on_host = [](const std::string& kind, const std::string& nodes) {
      return breach(parse(
          "graph g\n" + kind + " %0: host f32[8] w\nbatch %1: f32[8] x\nforward layers.0\n" + nodes, "x.ir"));
    };
    const std::string reload =
        "  %2: f32[8] = rondo.reload.default(%0)\n  %3: f32[8] views %2 = rondo.wait_transfer.default(%2)\n";
    const std::string offload =
        "  %4: host f32[8] = rondo.offload.default(%1)\n"
        "  %5: host f32[8] views %4 = rondo.wait_transfer.default(%4)\n";
    const std::string touches = "only_transfers_touch_the_host after a pass: ",
                      rule = "host_state_is_updated_last after a pass: node ";
    for (const char* kind : {"parameter", "optimizer"})
      CHECK(on_host(kind, reload + offload + "return\n  y = %3\n  new = %5 -> w\n").empty());
    CHECK(on_host("optimizer", reload + "return\n  y = %3\n  same = %0 -> w\n") ==
          "parameters_keep_their_places after a pass: node 2 (return, module layers.0) leaves w unchanged");
    for (const char* kind : {"buffer", "batch", "saved"})
      CHECK(on_host(kind, "return\n  y = %1\n") ==
            touches + "the " + kind + " input \"w\" is in host memory");
    CHECK(on_host("parameter", "  %2: f32[8] = aten.neg.default(%0)\nreturn\n  y = %2\n") ==
          touches + "node 0 (aten.neg.default, module layers.0) reads %0, which is in host memory");
    CHECK(on_host("parameter", offload + "return\n  y = %5\n") ==
          rule + "2 (return, module layers.0) output \"y\" is on the host, but must not be there");
    CHECK(on_host("parameter", "  %6: f32[8] = aten.neg.default(%1)\nreturn\n  new = %6 -> w\n") ==
          rule + "1 (return, module layers.0) output \"new\" is not on the host, but must be there");
    CHECK(on_host("parameter", offload + reload + "return\n  y = %3\n  new = %5 -> w\n") ==
          rule +
              "0 (rondo.offload.default, module layers.0) writes the new content of \"w\", which node 3 "
              "(rondo.wait_transfer.default) still needs");
  }

  SECTION("outputs have unique names") {
    CHECK(breach_of("return\n  y = %2\n  y = %1\n") ==
          "outputs_are_whole after a pass: node 0 (return, module layers.0) two outputs are named \"y\"");
    Graph graph = graph_of("return\n  y = %2\n");
    graph.outputs.clear();
    CHECK(breach(graph) ==
          "outputs_are_whole after a pass: node 0 (return, module layers.0) 0 outputs are named, but 1 "
          "values are returned");
  }

  SECTION("an update fits its input, and every storage has one owner") {
    const std::string rule = "updates_fit_their_inputs after a pass: node ";
    CHECK(breach_of("  %3: f32[8]{2} = rondo.strided.default(%2)\nreturn\n  a = %3 -> w\n") ==
          rule + "1 (return, module layers.0) output \"a\" is f32[8]{2} but the input it updates is f32[8]");
    CHECK(breach_of("return\n  a = %0 -> w\n  b = %2 -> w\n") ==
          rule + "0 (return, module layers.0) input \"w\" is updated twice");
    CHECK(breach_of("return\n  a = %0 -> x\n") ==
          rule + "0 (return, module layers.0) output \"a\" updates the batch input \"x\"");
    CHECK(breach_of("return\n  a = %0 -> state\n") ==
          rule + "0 (return, module layers.0) output \"a\" shares its storage with another input or update");
    CHECK(breach_of("  %3: f32[8] = aten.neg.default(%2)\nreturn\n  a = %3 -> w\n  b = %3 -> state\n") ==
          rule + "1 (return, module layers.0) output \"b\" shares its storage with another input or update");
    CHECK(breach_of("  %3: f32[8] = aten.neg.default(%2)\nreturn\n  old = %0\n  a = %3 -> w\n") ==
          rule + "1 (return, module layers.0) output \"old\" is the input \"w\" before its update");
    Graph graph = graph_of("return\n  a = %0 -> w\n");
    graph.outputs[0].updates = 9;
    CHECK(breach(graph) ==
          rule + "0 (return, module layers.0) output \"a\" updates an input that does not exist");
  }

  SECTION("an overwritten input is updated") {
    CHECK(
        breach_of("  %3: f32[8] writes %1 = aten.exp_.default(%1)\nreturn\n  y = %3\n") ==
        "overwritten_inputs_are_updates after a pass: node 0 (aten.exp_.default, module layers.0) overwrites "
        "the input "
        "\"state\", but no output updates it");
  }

  SECTION("a segment has no host read") {
    Graph graph = graph_of("  aten._local_scalar_dense.default(%2)\nreturn\n  y = %2\n");
    graph.segments = {{0, 2}};
    CHECK(breach(graph) ==
          "segments_can_be_recorded after a pass: node 0 (aten._local_scalar_dense.default, module layers.0) "
          "reads on the host inside of a segment");
  }

  SECTION("results of a step are replicated") {
    const std::string text = "graph g\naxis dp 2\ngroup dp dp\nbatch %0: f32[] loss on dp sum\n";
    CHECK(breach(parse(text + "return\n  loss = %0\n", "x.ir")) ==
          "shardings_agree after a pass: node 0 (return) output \"loss\" is sharded as dp sum, but must be "
          "sharded as dp replicated");
  }

  SECTION("a parameter is updated by its own value") {
    const std::string text = "graph g\nparameter %0: f32[8] a\nparameter %1: f32[8] b\n";
    const std::string copy = "update\n  %2: f32[8] = aten.clone.default(%1, none)\n";
    CHECK(breach(parse(text + copy + "return\n  a = %2 -> a\n", "x.ir")) ==
          "parameters_keep_their_places after a pass: node 1 (return) takes the update of b as the update of "
          "a");
  }

  SECTION("every rule is covered by a section before") {
    for (const Rule& rule : rules()) {
      INFO(rule.name);
      CHECK(broken_rules().count(std::string(rule.name)) == 1);
      CHECK_FALSE(rule.description.empty());
    }
  }
}
