"""Turns the weights of all-MiniLM-L6-v2 into an ONNX model with 8 bit weights: convert.py SOURCES MADE.

BERT with 6 layers, 12 heads and 384 dimensions. ``input_ids`` and ``attention_mask`` go in, ``sentence_embedding``
comes out: the mean over the word pieces, of length 1. Three things differ from the usual export and its
``quantize_dynamic``; benchmarks/README.md has the figures.

- Operators of onnxruntime do several steps at once (attention, skip connections with normalization, Gelu with bias).
- Numbers that flow into an 8 bit product are rounded by a scale of their own word piece (row), not of the whole batch:
  a vector does not depend on which texts it was made beside, and is nearer to the original's.
- Queries, keys and values suffer most from rounding: their weights take 8 bits too, but are multiplied as float32.

Only additions, divisions and roundings that IEEE 754 defines are used on the weights, so the same bytes come out
everywhere.
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
    """The tensors of a file by name: a length, a header in JSON, then the numbers."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    kinds = {"F32": "<f4", "I64": "<i8"}
    weights = {}
    for name, about in header.items():
        if name != "__metadata__":
            first, last = about["data_offsets"]
            flat = np.frombuffer(content[start + first : start + last], kinds[about["dtype"]])
            weights[name] = flat.reshape(about["shape"])
    return weights


def rounded(weight: Any) -> tuple[Any, Any]:
    """A matrix as 8 bit numbers and a scale for each row, symmetric around zero."""
    scale = np.abs(weight).max(axis=1) / np.float32(127)
    return np.rint(weight / scale[:, None]).astype(np.int8), scale


class Graph:
    """The nodes and constants of a model while it is written. Every method returns the name of a tensor."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def constant(self, name: str, value: Any) -> str:
        """A tensor that does not change; the same name is the same tensor."""
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def weight(self, name: str) -> str:
        """A tensor of the original as it is."""
        return self.constant(name, self.weights[name])

    def apply(self, operator: str, *inputs: str, domain: str = "", outputs: int = 1, **options: Any) -> Any:
        """The result of an operator: a name, or a list of them where it has several."""
        label = f"{operator}_{len(self.nodes)}"
        names = [label] if outputs == 1 else [f"{label}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, name=label, domain=domain, **options))
        return names[0] if outputs == 1 else names

    def embed(self, ids: str) -> str:
        """The vectors of the word pieces and of their places."""
        words, scale = rounded(self.weights["embeddings.word_embeddings.weight"])
        found = self.apply("Gather", self.constant("words", words), ids)
        scales = self.apply("Gather", self.constant("words.scale", scale[:, None]), ids)
        values = self.apply("Mul", self.apply("Cast", found, to=TensorProto.FLOAT), scales)
        # There is one text at a time, and so one type of tokens: its vector is a part of every place.
        types = self.weights["embeddings.token_type_embeddings.weight"]
        places = self.constant("places", self.weights["embeddings.position_embeddings.weight"] + types[0])
        length = self.apply("Shape", ids, start=1, end=2)
        placed = self.apply("Slice", places, self.constant("first", np.array([0], np.int64)), length)
        norm = "embeddings.LayerNorm"
        summed = self.apply("Add", values, placed)
        scaled = self.weight(f"{norm}.weight"), self.weight(f"{norm}.bias")
        return str(self.apply("LayerNormalization", summed, *scaled, epsilon=EPSILON))

    def multiply_exactly(self, values: str, name: str, weight: Any) -> str:
        """A product with weights that take 8 bits in the file and are float32 as soon as the model is loaded."""
        numbers, scale = rounded(weight)
        cast = self.apply("Cast", self.constant(name, numbers.T), to=TensorProto.FLOAT)
        return str(self.apply("MatMul", values, self.apply("Mul", cast, self.constant(f"{name}.scale", scale))))

    def multiply(self, values: str, name: str) -> str:
        """A product of 8 bit numbers; what flows in is divided by the largest of its row and rounded first."""
        numbers, scale = rounded(self.weights[f"{name}.weight"])
        step = self.constant("step", np.float32(1 / 127))
        zero = self.constant("zero", np.uint8(128))
        last_axis = self.constant("last_axis", np.array([-1], np.int64))
        largest = self.apply("ReduceMax", self.apply("Abs", values), last_axis, keepdims=1)
        small = self.apply("QuantizeLinear", self.apply("Div", values, largest), step, zero)
        weights = self.constant(name, numbers.T), step, self.constant(f"{name}.scale", scale), zero
        return str(self.apply("Mul", self.apply("MatMulIntegerToFloat", small, *weights, domain=MICROSOFT), largest))

    def add_and_normalize(self, values: str, skipped: str, name: str) -> str:
        """The end of each half of a layer."""
        constants = [self.weight(f"{name}.{part}") for part in ("LayerNorm.weight", "LayerNorm.bias", "dense.bias")]
        return str(self.apply("SkipLayerNormalization", values, skipped, *constants, domain=MICROSOFT, epsilon=EPSILON))

    def layer(self, values: str, mask: str, name: str) -> str:
        """Attention, then the dense half."""

        def joined(part: str) -> Any:
            names = [f"{name}.attention.self.{of}.{part}" for of in ("query", "key", "value")]
            return np.concatenate([self.weights[each] for each in names])

        product = self.multiply_exactly(values, f"{name}.attention.self", joined("weight"))
        product = self.apply("Add", product, self.constant(f"{name}.attention.self.bias", joined("bias")))
        split = self.apply("Split", product, outputs=3, axis=-1, num_outputs=3)
        attended = self.apply("MultiHeadAttention", *split, "", mask, domain=MICROSOFT, num_heads=HEADS)
        attended = self.multiply(attended, f"{name}.attention.output.dense")
        values = self.add_and_normalize(attended, values, f"{name}.attention.output")
        dense = self.multiply(values, f"{name}.intermediate.dense")
        dense = self.apply("BiasGelu", dense, self.weight(f"{name}.intermediate.dense.bias"), domain=MICROSOFT)
        return self.add_and_normalize(self.multiply(dense, f"{name}.output.dense"), values, f"{name}.output")

    def pool(self, values: str, mask: str) -> str:
        """The sum over the word pieces, of length 1: as good as their mean."""
        middle = self.constant("middle_axis", np.array([1], np.int64))
        chosen = self.apply("Cast", self.apply("Unsqueeze", mask, middle), to=TensorProto.FLOAT)
        summed = self.apply("Squeeze", self.apply("MatMul", chosen, values), middle)
        return str(self.apply("LpNormalization", summed, axis=-1, p=2))


def convert(weights: Weights) -> Any:
    """The whole model."""
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
    made = helper.make_graph(graph.nodes, "all-MiniLM-L6-v2", inputs, [output], list(graph.constants.values()))
    operators = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(made, opset_imports=operators, ir_version=8, producer_name="kipu")


def without_limits(tokenizer: bytes) -> bytes:
    """The tokenizer without the cutting and padding to 128 word pieces that its file asks for."""
    content = json.loads(tokenizer) | {"truncation": None, "padding": None}
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def main() -> None:
    """Read the sources and write the model."""
    sources, made = map(Path, sys.argv[1:3])
    model = convert(read_safetensors(sources / "model.safetensors"))
    (made / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
    (made / "tokenizer.json").write_bytes(without_limits((sources / "tokenizer.json").read_bytes()))


if __name__ == "__main__":
    main()
