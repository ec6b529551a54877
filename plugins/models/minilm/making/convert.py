"""Convert the weights of all-MiniLM-L6-v2 to an ONNX model with 8 bit weights: convert.py SOURCES OUTPUT.

The model is a BERT with 6 layers, 12 heads and 384 dimensions. Its inputs are ``input_ids`` and ``attention_mask``; its
output is ``sentence_embedding``, the mean over the word pieces, of length 1. Three things differ
from the usual export and its ``quantize_dynamic``; benchmarks/README.md has the figures.

- Operators of onnxruntime do several steps at once (attention, skip connections with normalization, Gelu with bias).
- Inputs of an 8 bit product are rounded with a scale for each word piece (row), not one for the whole batch: a vector
  does not depend on the other texts, and is nearer to the original's.
- Queries, keys and values suffer most from rounding: their weights take 8 bits too, but are multiplied as float32.

Only additions, divisions and roundings that IEEE 754 defines are used on the weights, so the result is the same
on every machine.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

LAYERS, HEADS, DIMENSION = 6, 12, 384
EPSILON = 1e-12
MICROSOFT = "com.microsoft"  # the domain of onnxruntime's own operators
Weights = dict[str, Any]


def read_safetensors(path: Path) -> Weights:
    """Read the tensors of a file by name. Its format: a length, a header in JSON, then the numbers."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    kinds = {"F32": "<f4", "I64": "<i8"}
    weights = {}
    for name, entry in header.items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            flat = np.frombuffer(content[start + first : start + last], kinds[entry["dtype"]])
            weights[name] = flat.reshape(entry["shape"])
    return weights


def quantize(weight: Any) -> tuple[Any, Any]:
    """Round a matrix to 8 bit numbers with a scale for each row, symmetric around zero."""
    scale = np.abs(weight).max(axis=1) / np.float32(127)
    return np.rint(weight / scale[:, None]).astype(np.int8), scale


class Graph:
    """The nodes and constants of a model under construction. Every method returns the name of a tensor."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def constant(self, name: str, value: Any) -> str:
        """Add a constant tensor. The same name is the same tensor."""
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def weight(self, name: str) -> str:
        """Add an unchanged tensor of the original."""
        return self.constant(name, self.weights[name])

    def apply(self, operator: str, *inputs: str, domain: str = "", outputs: int = 1, **options: Any) -> Any:
        """Add an operator. Return the name of its output, or a list of names for several outputs."""
        label = f"{operator}_{len(self.nodes)}"
        names = [label] if outputs == 1 else [f"{label}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, name=label, domain=domain, **options))
        return names[0] if outputs == 1 else names

    def embed(self, ids: str) -> str:
        """Add the vectors of the word pieces and of their positions."""
        words, scale = quantize(self.weights["embeddings.word_embeddings.weight"])
        found = self.apply("Gather", self.constant("words", words), ids)
        scales = self.apply("Gather", self.constant("words.scale", scale[:, None]), ids)
        values = self.apply("Mul", self.apply("Cast", found, to=TensorProto.FLOAT), scales)
        # A text has one type of tokens, whose vector is added to every position.
        types = self.weights["embeddings.token_type_embeddings.weight"]
        places = self.constant("places", self.weights["embeddings.position_embeddings.weight"] + types[0])
        length = self.apply("Shape", ids, start=1, end=2)
        placed = self.apply("Slice", places, self.constant("first", np.array([0], np.int64)), length)
        norm = "embeddings.LayerNorm"
        summed = self.apply("Add", values, placed)
        scaled = self.weight(f"{norm}.weight"), self.weight(f"{norm}.bias")
        return str(self.apply("LayerNormalization", summed, *scaled, epsilon=EPSILON))

    def multiply_exactly(self, values: str, name: str, weight: Any) -> str:
        """Add a product with weights that have 8 bits in the file and are float32 once the model is loaded."""
        numbers, scale = quantize(weight)
        cast = self.apply("Cast", self.constant(name, numbers.T), to=TensorProto.FLOAT)
        return str(self.apply("MatMul", values, self.apply("Mul", cast, self.constant(f"{name}.scale", scale))))

    def multiply(self, values: str, name: str) -> str:
        """Add a product of 8 bit numbers. The input is divided by the largest value of its row and rounded first."""
        numbers, scale = quantize(self.weights[f"{name}.weight"])
        step = self.constant("step", np.float32(1 / 127))
        zero = self.constant("zero", np.uint8(128))
        last_axis = self.constant("last_axis", np.array([-1], np.int64))
        largest = self.apply("ReduceMax", self.apply("Abs", values), last_axis, keepdims=1)
        small = self.apply("QuantizeLinear", self.apply("Div", values, largest), step, zero)
        weights = self.constant(name, numbers.T), step, self.constant(f"{name}.scale", scale), zero
        return str(self.apply("Mul", self.apply("MatMulIntegerToFloat", small, *weights, domain=MICROSOFT), largest))

    def add_and_normalize(self, values: str, skipped: str, name: str) -> str:
        """Add the end of each half of a layer: bias, skip connection and normalization."""
        constants = [self.weight(f"{name}.{part}") for part in ("LayerNorm.weight", "LayerNorm.bias", "dense.bias")]
        return str(self.apply("SkipLayerNormalization", values, skipped, *constants, domain=MICROSOFT, epsilon=EPSILON))

    def layer(self, values: str, mask: str, name: str) -> str:
        """Add a layer: attention, then the dense half."""

        def concatenate(part: str) -> Any:
            names = [f"{name}.attention.self.{of}.{part}" for of in ("query", "key", "value")]
            return np.concatenate([self.weights[part_name] for part_name in names])

        product = self.multiply_exactly(values, f"{name}.attention.self", concatenate("weight"))
        product = self.apply("Add", product, self.constant(f"{name}.attention.self.bias", concatenate("bias")))
        split = self.apply("Split", product, outputs=3, axis=-1, num_outputs=3)
        attended = self.apply("MultiHeadAttention", *split, "", mask, domain=MICROSOFT, num_heads=HEADS)
        attended = self.multiply(attended, f"{name}.attention.output.dense")
        values = self.add_and_normalize(attended, values, f"{name}.attention.output")
        dense = self.multiply(values, f"{name}.intermediate.dense")
        dense = self.apply("BiasGelu", dense, self.weight(f"{name}.intermediate.dense.bias"), domain=MICROSOFT)
        return self.add_and_normalize(self.multiply(dense, f"{name}.output.dense"), values, f"{name}.output")

    def pool(self, values: str, mask: str) -> str:
        """Add the sum over the word pieces, of length 1; it has the direction of their mean."""
        middle = self.constant("middle_axis", np.array([1], np.int64))
        chosen = self.apply("Cast", self.apply("Unsqueeze", mask, middle), to=TensorProto.FLOAT)
        summed = self.apply("Squeeze", self.apply("MatMul", chosen, values), middle)
        return str(self.apply("LpNormalization", summed, axis=-1, p=2))


def convert(weights: Weights) -> Any:
    """Build the whole model."""
    graph = Graph(weights)
    mask = graph.apply("Cast", "attention_mask", to=TensorProto.INT32)
    values = graph.embed("input_ids")
    for number in range(LAYERS):
        values = graph.layer(values, mask, f"encoder.layer.{number}")
    graph.nodes.append(helper.make_node("Identity", [graph.pool(values, "attention_mask")], ["sentence_embedding"]))
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "length"])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["texts", DIMENSION])
    graph_proto = helper.make_graph(graph.nodes, "all-MiniLM-L6-v2", inputs, [output], list(graph.constants.values()))
    operators = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph_proto, opset_imports=operators, ir_version=8, producer_name="kipu")


def remove_limits(tokenizer: bytes) -> bytes:
    """Remove truncation and padding to 128 word pieces from the tokenizer."""
    content = json.loads(tokenizer) | {"truncation": None, "padding": None}
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def main() -> None:
    """Read the sources and write the model."""
    sources, output = map(Path, sys.argv[1:3])
    model = convert(read_safetensors(sources / "model.safetensors"))
    (output / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
    (output / "tokenizer.json").write_bytes(remove_limits((sources / "tokenizer.json").read_bytes()))


if __name__ == "__main__":
    main()
