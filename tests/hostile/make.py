"""Writes model files that are damaged, lie about their sizes, or are something else, with an index of what is wrong.

    make.py FOLDER

FOLDER/corpus.json lists, for each file: its name, what is wrong with it, the command that meets it, and the message. In a
message, {path} is the file or folder, {dir} the folder that holds it. Every file is made from a small model that is whole,
and two runs write the same bytes. Python's standard library only.
"""

import json
import os
import struct
import sys

GIB = 1 << 30
HIDDEN, HEADS, INTERMEDIATE = 16, 2, 32
ENTRIES = []


# GGUF ---------------------------------------------------------------------------------------------------------------

def text(value):
    value = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(value)) + value


def u32(value):
    return struct.pack("<II", 4, value)


def f32(value):
    return struct.pack("<If", 6, value)


def string(value):
    return struct.pack("<I", 8) + text(value)


def array(kind, items):
    return struct.pack("<IIQ", 9, kind, len(items)) + b"".join(items)


PIECES = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + ["a", "b", "ab"]
KINDS = [2, 3, 3] + [6] * 256 + [1] * 3


def gguf_metadata():
    return {
        "general.architecture": string("llama"),
        "llama.context_length": u32(64),
        "llama.embedding_length": u32(HIDDEN),
        "llama.block_count": u32(1),
        "llama.feed_forward_length": u32(INTERMEDIATE),
        "llama.attention.head_count": u32(HEADS),
        "llama.attention.head_count_kv": u32(HEADS),
        "llama.attention.layer_norm_rms_epsilon": f32(1e-5),
        "tokenizer.ggml.model": string("llama"),
        "tokenizer.ggml.tokens": array(8, [text(piece) for piece in PIECES]),
        "tokenizer.ggml.scores": array(6, [struct.pack("<f", 0)] * len(PIECES)),
        "tokenizer.ggml.token_type": array(5, [struct.pack("<i", kind) for kind in KINDS]),
        "tokenizer.ggml.bos_token_id": u32(1),
        "tokenizer.ggml.eos_token_id": u32(2),
    }


def gguf_tensors(rows=len(PIECES)):
    """Name, shape (the contiguous dimension first), type, and where it differs from the next place: an offset."""
    square, wide = [HIDDEN, HIDDEN], [HIDDEN, INTERMEDIATE]
    shapes = {
        "token_embd.weight": [HIDDEN, rows], "output_norm.weight": [HIDDEN], "blk.0.attn_norm.weight": [HIDDEN],
        "blk.0.attn_q.weight": square, "blk.0.attn_k.weight": square, "blk.0.attn_v.weight": square,
        "blk.0.attn_output.weight": square, "blk.0.ffn_norm.weight": [HIDDEN], "blk.0.ffn_gate.weight": wide,
        "blk.0.ffn_up.weight": wide, "blk.0.ffn_down.weight": [INTERMEDIATE, HIDDEN],
    }
    return {name: {"shape": shape, "type": 0} for name, shape in shapes.items()}


def number_of(shape):
    count = 1
    for dim in shape:
        count *= dim
    return count


def gguf(metadata=None, tensors=None, version=3, tensor_count=None, metadata_count=None, data=b"\0", extra=b""):
    metadata = gguf_metadata() if metadata is None else metadata
    tensors = gguf_tensors() if tensors is None else tensors
    out = b"GGUF" + struct.pack("<I", version)
    out += struct.pack("<Q", len(tensors) if tensor_count is None else tensor_count)
    out += struct.pack("<Q", len(metadata) if metadata_count is None else metadata_count)
    out += b"".join(text(key) + value for key, value in metadata.items()) + extra
    end = 0
    for name, tensor in tensors.items():
        shape, offset = tensor["shape"], tensor.get("offset", end)
        out += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        out += struct.pack("<IQ", tensor["type"], offset)
        end = (max(end, offset + 4 * min(number_of(shape), 1 << 20)) + 31) // 32 * 32
    out += b"\0" * (-len(out) % 32)
    return out + (data * end)[:end]


def with_metadata(**changes):
    metadata = gguf_metadata()
    for key, value in changes.items():
        metadata[key.replace("__", ".")] = value
    return gguf(metadata)


def with_tensor(name, **changes):
    tensors = gguf_tensors()
    tensors[name].update(changes)
    return gguf(tensors=tensors)


# Safetensors --------------------------------------------------------------------------------------------------------

def config(**changes):
    return {
        "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INTERMEDIATE, "num_hidden_layers": 1,
        "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "vocab_size": 16, "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": True, **changes,
    }


def header(rows=16):
    layer = "model.layers.0."
    square, wide = [HIDDEN, HIDDEN], [INTERMEDIATE, HIDDEN]
    shapes = {
        "model.embed_tokens.weight": [rows, HIDDEN], "model.norm.weight": [HIDDEN],
        layer + "input_layernorm.weight": [HIDDEN], layer + "post_attention_layernorm.weight": [HIDDEN],
        **{layer + f"self_attn.{part}_proj.weight": square for part in "qkvo"},
        layer + "mlp.gate_proj.weight": wide, layer + "mlp.up_proj.weight": wide,
        layer + "mlp.down_proj.weight": [HIDDEN, INTERMEDIATE],
    }
    tensors, end = {}, 0
    for name, shape in shapes.items():
        start, end = end, end + 4 * number_of(shape)
        tensors[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}
    return tensors


def data_len(tensors):
    return max(tensor["data_offsets"][1] for tensor in tensors.values())


def safetensors(tensors=None, head=None, data=None):
    tensors = header() if tensors is None else tensors
    head = json.dumps(tensors).encode() if head is None else head
    return struct.pack("<Q", len(head)) + head + (b"\0" * data_len(tensors) if data is None else data)


def with_offsets(name, start, end):
    tensors = header()
    tensors[name]["data_offsets"] = [start, end]
    return safetensors(tensors, data=b"\0" * data_len(header()))


def tokenizer(**changes):
    """A tokenizer.json of 16 tokens."""
    vocab = {piece: number for number, piece in enumerate(["<s>", "</s>", "<unk>", *"abcdefghijk", "ab", "hi"])}
    model = {"type": "BPE", "unk_token": "<unk>", "vocab": vocab, "merges": [["a", "b"], ["h", "i"]]}
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": 0, "content": "<s>", **special}, {"id": 1, "content": "</s>", **special}]
    model.update(changes.pop("model", {}))
    return {"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": None, "post_processor": None,
            "decoder": None, "model": model, **changes}


# Writing ------------------------------------------------------------------------------------------------------------

FOLDER = ""


def entry(name, wrong, message, command="inspect"):
    ENTRIES.append({"name": name, "wrong": wrong, "command": command, "message": message})
    return os.path.join(FOLDER, name)


def file(name, wrong, content, message, command="inspect", sparse=None):
    with open(entry(name, wrong, message, command), "wb") as out:
        out.write(content)
        if sparse is not None:
            out.truncate(sparse)


def directory(name, wrong, files, message, command="inspect", whole=True):
    """A model's folder: what is not among `files` is whole, unless `whole` is false."""
    path = entry(name, wrong, message, command)
    os.mkdir(path)
    if whole:
        files = {"config.json": config(), "model.safetensors": safetensors(), "tokenizer.json": tokenizer(), **files}
    for inner, content in files.items():
        if content is None:
            continue
        if isinstance(content, int):
            with open(os.path.join(path, inner), "wb") as out:
                out.truncate(content)
            continue
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        with open(os.path.join(path, inner), "wb") as out:
            out.write(content)


def gguf_files():
    whole = gguf()
    file("empty.gguf", "no bytes at all", b"", "{path} is damaged or cut off: it is empty")
    file("cut_in_header.gguf", "ends in the vocabulary", whole[:2000],
         "{path} is damaged or cut off: \"tokenizer.ggml.tokens\" claims 262 elements, but only 1552 bytes of the "
         "file are left")
    file("cut_in_data.gguf", "ends in the weights", whole[:-1000],
         "{path} is damaged or cut off: tensor \"blk.0.ffn_down.weight\" needs bytes 32160 to 34208, but the file "
         "has 33208; was the download complete?")
    file("tensors_without_end.gguf", "claims 2^60 tensors", gguf(tensor_count=1 << 60),
         "{path} is damaged or cut off: \"tensors\" claims 1152921504606846976 elements, but only 27836 bytes of the "
         "file are left")
    file("metadata_without_end.gguf", "claims 2^60 metadata entries", gguf(metadata_count=1 << 60),
         "{path} is damaged or cut off: \"metadata entries\" claims 1152921504606846976 elements, but only 34184 "
         "bytes of the file are left")
    file("key_without_end.gguf", "a key of 2^40 bytes", gguf(metadata={}, metadata_count=1, extra=struct.pack("<Q", 1 << 40)),
         "{path} is damaged or cut off: \"a metadata key\" claims 1099511627776 elements, but only 27840 bytes of "
         "the file are left")
    file("sparse.gguf", "a list of 2^31 tokens, in 64 GiB that take no disk",
         gguf(metadata={"general.architecture": string("llama"), "tokenizer.ggml.tokens": struct.pack("<IIQ", 9, 8, 1 << 31)}, tensors={}),
         "{path} is damaged or cut off: with the 2147483648 elements of \"tokenizer.ggml.tokens\" the header passes "
         "134217728 bytes", sparse=64 * GIB)
    file("key_twice.gguf", "a key occurs twice", gguf(extra=text("general.architecture") + string("qwen3"), metadata_count=len(gguf_metadata()) + 1),
         "{path} is damaged or cut off: metadata key \"general.architecture\" occurs twice")
    file("unknown_value.gguf", "a value of a type that there is not", with_metadata(llama__block_count=struct.pack("<II", 99, 1)),
         "{path} is damaged or cut off: metadata key \"llama.block_count\" has the unknown type 99")
    nested = struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 100 + struct.pack("<IQ", 0, 0)
    file("nested.gguf", "lists in lists, 100 deep", with_metadata(deep=nested),
         "{path} is damaged or cut off: metadata key \"deep\" nests arrays more than 4 deep")
    file("not_utf8.gguf", "a key that is no text", gguf(extra=text(b"caf\xe9") + u32(1), metadata_count=len(gguf_metadata()) + 1),
         "{path} is damaged or cut off: the text of \"a metadata key\" is not UTF-8, see byte 6383 of the file")
    file("misaligned.gguf", "a tensor off the alignment", with_tensor("output_norm.weight", offset=16772),
         "{path} is damaged or cut off: tensor \"output_norm.weight\" starts at byte 16772 of the data, which is not "
         "a multiple of the alignment 32")
    file("overlap.gguf", "two tensors share bytes", with_tensor("blk.0.attn_k.weight", offset=32),
         "{path} is damaged or cut off: tensor \"blk.0.attn_k.weight\" starts at byte 7040 of the file, within "
         "tensor \"token_embd.weight\", which ends at byte 23776")
    file("impossible_shape.gguf", "a tensor of 2^40 times 2^40 numbers", with_tensor("output_norm.weight", shape=[1 << 40, 1 << 40]),
         "{path} is damaged or cut off: tensor \"output_norm.weight\" has the shape [1099511627776, 1099511627776], "
         "more than a file of 4228480 bytes can hold")
    file("rank.gguf", "a tensor of 9 dimensions", with_tensor("output_norm.weight", shape=[1] * 9),
         "{path} is damaged or cut off: tensor \"output_norm.weight\" has 9 dimensions, at most 4 are possible")
    file("big_endian.gguf", "a file for other processors", b"GGUF" + struct.pack(">I", 3) + whole[8:],
         "{path} is damaged or cut off: its numbers are big-endian, and only little-endian files are supported")
    file("zip.gguf", "a zip archive by another name", b"PK\x03\x04" + b"\0" * 100,
         "{path} is not a GGUF file: it is a zip archive, probably a PyTorch checkpoint. Those hold Python pickles, "
         "and reading a pickle runs code from it, so none is read; convert it to safetensors or GGUF")
    file("pickle.gguf", "a Python pickle by another name", b"\x80\x02}q\0." + b"\0" * 100,
         "{path} is not a GGUF file: it is a Python pickle, probably a PyTorch checkpoint. Reading a pickle runs "
         "code from it, so none is read; convert it to safetensors or GGUF")
    file("gzip.gguf", "compressed", b"\x1f\x8b\x08" + b"\0" * 100,
         "{path} is not a GGUF file: it is a compressed file; unpack it first")
    file("page.gguf", "a web page", b"<!DOCTYPE html><html>Sign in</html>",
         "{path} is not a GGUF file: it is a web page, so the download went wrong")
    file("pointer.gguf", "a Git LFS pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
         "{path} is not a GGUF file: it is a Git LFS pointer: the model itself is still to be downloaded (git lfs "
         "pull)")
    file("safetensors.gguf", "safetensors by another name", safetensors(),
         "{path} is not a GGUF file: it is a safetensors file; name the directory that holds it and its config.json")
    file("pytorch_model.bin", "a PyTorch checkpoint", b"PK\x03\x04" + b"\0" * 100,
         "{path} is not a GGUF file: it is a zip archive, probably a PyTorch checkpoint. Those hold Python pickles, "
         "and reading a pickle runs code from it, so none is read; convert it to safetensors or GGUF")
    os.mkfifo(entry("pipe.gguf", "a named pipe that nobody writes to",
         "{path}: it is a pipe, a socket or a device; only regular files are read"))
    os.symlink("loop.gguf", entry("loop.gguf", "a link to itself",
         "{path}: Too many levels of symbolic links (os error 40)"))
    os.symlink("/dev/zero", entry("device.gguf", "a device without end",
         "{path}: it is a pipe, a socket or a device; only regular files are read"))
    file("family.gguf", "an architecture that is not supported", with_metadata(general__architecture=string("mamba")),
         "{path}: the model family \"mamba\" is not supported; supported are: Llama, Mistral, Qwen2, Qwen3, Gemma 3")
    file("layers.gguf", "a thousand million layers", with_metadata(llama__block_count=u32(10**9)),
         "{path}: \"llama.block_count\" is 1000000000, expected no more layers than the 11 tensors in the file")
    file("heads.gguf", "no attention heads", with_metadata(llama__attention__head_count=u32(0)),
         "{path}: \"llama.attention.head_count\" is 0, expected a positive count")
    file("kv_heads.gguf", "heads that KV heads do not divide", with_metadata(llama__attention__head_count_kv=u32(3)),
         "{path}: \"llama.attention.head_count_kv\" is 3, expected a divisor of the 2 attention heads")
    file("odd_head.gguf", "a head size that cannot be rotated", with_metadata(llama__attention__key_length=u32(7), llama__attention__value_length=u32(7)),
         "{path}: \"rotary dimensions\" is 7, expected an even number up to the head size 7")
    file("theta.gguf", "a rotation by NaN", with_metadata(llama__rope__freq_base=f32(float("nan"))),
         "{path}: \"llama.rope.freq_base\" is NaN, expected a number")
    file("epsilon.gguf", "a negative epsilon", with_metadata(llama__attention__layer_norm_rms_epsilon=f32(-1.0)),
         "{path}: \"llama.attention.layer_norm_rms_epsilon\" is -1, expected a number between 0 and 1")
    file("context.gguf", "a context of 4 thousand million tokens", with_metadata(llama__context_length=u32(4 * 10**9)),
         "{path}: \"llama.context_length\" is 4000000000, expected between 1 and 134217728")
    split = {"split.count": struct.pack("<IH", 2, 2), "split.no": struct.pack("<IH", 2, 0)}
    first = gguf({**gguf_metadata(), **split})
    file("alone-00001-of-00002.gguf", "the second of two parts is missing", first,
         "{path}: its part {dir}/alone-00002-of-00002.gguf is missing")
    file("cycle-00001-of-00002.gguf", "the second part is a copy of the first", first,
         "{dir}/cycle-00002-of-00002.gguf is damaged or cut off: its name says part 2 of 2, the file itself part 1 "
         "of 2")
    with open(os.path.join(FOLDER, "cycle-00002-of-00002.gguf"), "wb") as out:
        out.write(first)
    # Found when the weights or the tokenizer are read.
    tensors = gguf_tensors()
    del tensors["blk.0.ffn_up.weight"]
    file("missing_tensor.gguf", "a tensor is missing", gguf(tensors=tensors),
         "{path}: tensor \"blk.0.ffn_up.weight\" is missing", "run")
    file("wrong_shape.gguf", "a tensor of another shape", with_tensor("blk.0.attn_k.weight", shape=[HIDDEN, 8]),
         "{path}: tensor \"blk.0.attn_k.weight\" has shape [8, 16], but the configuration asks for [16, 16]", "run")
    file("unknown_tensor_type.gguf", "a tensor stored in a way that is not supported", with_tensor("blk.0.attn_k.weight", type=77),
         "{path}: tensor \"blk.0.attn_k.weight\" is stored as ggml type 77; supported are F32, F16, Q4_0, Q4_1, "
         "Q5_0, Q5_1, Q8_0, Q8_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, Q8_K, BF16", "run")
    file("begin_token.gguf", "a begin token outside the vocabulary", with_metadata(tokenizer__ggml__bos_token_id=u32(10**9)),
         "{path} has an unusable vocabulary: \"tokenizer.ggml.bos_token_id\" is 1000000000, but the vocabulary has "
         "262 tokens", "run")
    file("few_scores.gguf", "fewer scores than tokens", with_metadata(tokenizer__ggml__scores=array(6, [struct.pack("<f", 0)])),
         "{path} has an unusable vocabulary: \"tokenizer.ggml.scores\" has 1 entries for 262 tokens", "run")
    file("small_table.gguf", "more tokens than embeddings", gguf(tensors=gguf_tensors(rows=100)),
         "{path}: the tokenizer has 262 tokens, but the model's embedding table 100 rows: token 100 (\"a\") has "
         "none; tokenizer and weights do not belong together", "run")
    # This one runs, with a warning.
    tensors = gguf_tensors()
    tensors.update({f"extra.{number}": {"shape": [8], "type": 0} for number in range(4)})
    with open(os.path.join(FOLDER, "unused_tensors.gguf"), "wb") as out:
        out.write(gguf(tensors=tensors))
    file("nan.gguf", "weights that are NaN", gguf(data=struct.pack("<f", float("nan"))),
         "the answer ended early: the model's logits contain NaN or infinity; its weights or its input are damaged", "run")


def safetensors_files():
    directory("header_length", "a header longer than the file", {"model.safetensors": struct.pack("<Q", 1 << 60) + safetensors()[8:]},
         "{path}/model.safetensors is damaged or cut off: its header claims 1152921504606846976 bytes, the file has "
         "12611")
    directory("header_text", "a header that is no JSON", {"model.safetensors": safetensors(head=b"{\"a\": ")},
         "{path}/model.safetensors is damaged or cut off: its header is not what it should be: tensor \"a\": EOF "
         "while parsing a value at line 1 column 6")
    directory("tensors_overlap", "two tensors share bytes", {"model.safetensors": with_offsets("model.norm.weight", 1000, 1064)},
         "{path}/model.safetensors is damaged or cut off: tensor \"model.norm.weight\" starts at byte 1000 of the "
         "data, before the end of model.embed_tokens.weight at 1024")
    directory("hole", "bytes between tensors", {"model.safetensors": with_offsets("model.norm.weight", 1028, 1092)},
         "{path}/model.safetensors is damaged or cut off: bytes 1024 to 1028 of the data, before tensor "
         "\"model.norm.weight\", belong to no tensor")
    directory("rest", "bytes after the last tensor", {"model.safetensors": safetensors() + b"\0" * 5},
         "{path}/model.safetensors is damaged or cut off: its last 5 bytes belong to no tensor")
    directory("cut", "ends in the weights", {"model.safetensors": safetensors()[:-100]},
         "{path}/model.safetensors is damaged or cut off: its tensors need 11456 bytes after the header, but the "
         "file has 11356; was the download complete?")
    double = json.dumps(header())[:-1] + ", \"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [0], \"data_offsets\": [0, 0]}}"
    directory("tensor_twice", "a tensor's name occurs twice", {"model.safetensors": safetensors(head=double.encode())},
         "{path}/model.safetensors is damaged or cut off: tensor \"model.norm.weight\" occurs twice")
    directory("zip", "a zip archive by another name", {"model.safetensors": b"PK\x03\x04" + b"\0" * 100},
         "{path}/model.safetensors: it is a zip archive, probably a PyTorch checkpoint. Those hold Python pickles, "
         "and reading a pickle runs code from it, so none is read; convert it to safetensors or GGUF")
    directory("pickles", "only a PyTorch checkpoint", {"model.safetensors": None, "pytorch_model.bin": b"\x80\x02}."},
         "{path}: the directory holds no .safetensors file; pytorch_model.bin is a Python pickle, and reading a "
         "pickle runs code from it, so none is read; convert it to safetensors")
    index = {"weight_map": {"model.norm.weight": "../../etc/passwd"}}
    directory("outside", "an index that points out of its folder", {"model.safetensors.index.json": index},
         "{path}/model.safetensors.index.json is damaged or cut off: its weight_map has tensor \"model.norm.weight\" "
         "in \"../../etc/passwd\", which is no file name")
    index = {"weight_map": {"model.norm.weight": "model-00001-of-00001.safetensors"}}
    directory("shard", "a shard that is missing", {"model.safetensors.index.json": index},
         "{path}/model.safetensors.index.json is damaged or cut off: it lists "
         "{path}/model-00001-of-00001.safetensors, which is missing")
    directory("deep", "a configuration nested 10,000 deep", {"config.json": b"[" * 10000},
         "{path}/config.json is damaged or cut off: recursion limit exceeded at line 1 column 128")
    directory("nan_config", "a configuration with NaN", {"config.json": b'{"model_type": "llama", "rope_theta": NaN}'},
         "{path}/config.json is damaged or cut off: expected value at line 1 column 39")
    directory("vocabulary", "a vocabulary of 2^60 tokens", {"config.json": config(vocab_size=1 << 60)},
         "{path}/config.json: \"vocab_size\" is 1152921504606847000, expected a count of at most 4294967296")
    directory("divided", "a hidden size that heads do not divide", {"config.json": config(num_attention_heads=3, num_key_value_heads=3)},
         "{path}/config.json: \"hidden_size\" is 16, expected a multiple of the 3 attention heads, where no head "
         "size is given")
    directory("wrong_type", "a count in words", {"config.json": config(num_hidden_layers="many")},
         "{path}/config.json: \"num_hidden_layers\" is \"many\", expected a count of at most 4294967296")
    directory("rope", "a rotation that is a list", {"config.json": config(rope_scaling=[1])},
         "{path}/config.json: \"rope_parameters\" is [1], expected an object")
    directory("huge_config", "a configuration of 1 GiB", {"config.json": GIB},
         "{path}/config.json: it has 1073741824 bytes; of a file of this kind at most 16777216 are read")
    directory("end_token", "a negative end token", {"generation_config.json": {"eos_token_id": -2}},
         "{path}/generation_config.json: \"eos_token_id\" is -2, expected a token id or a list of them")


def text_files():
    with_model = lambda **model: {"tokenizer.json": tokenizer(model=model)}
    ordinary = tokenizer()["model"]["vocab"]
    directory("huge_tokenizer", "a tokenizer.json of 1 GiB", {"tokenizer.json": GIB},
         "{path}/tokenizer.json: it has 1073741824 bytes; of a file of this kind at most 67108864 are read", "run")
    directory("huge_id", "a token id of 2^32 - 1", with_model(vocab={**ordinary, "x": (1 << 32) - 1}),
         "{path}/tokenizer.json is not valid: token \"x\" has the id 4294967295, ids go from 0 to 4194303 at line 1 "
         "column 586", "run")
    directory("same_id", "two tokens of one id", with_model(vocab={**ordinary, "x": 5}),
         "{path}/tokenizer.json is not valid: token \"x\" has the id 5, as another one has at line 1 column 577", "run")
    directory("merge", "a merge of tokens that there are not", with_model(merges=[["x", "y"]]),
         "{path}/tokenizer.json is not valid: Token `x` out of vocabulary at line 1 column 595", "run")
    split = {"type": "Split", "pattern": {"Regex": "(?:[a-z]|[a-z])*(?=!)"}, "behavior": "Isolated", "invert": False}
    directory("expression", "a regular expression without end", {"tokenizer.json": tokenizer(pre_tokenizer=split)},
         "the text could not be tokenized: the tokenizer's regular expression \"(?:[a-z]|[a-z])*(?=!)\" takes too "
         "many steps on this text", "run")
    replace = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    rules = {"type": "Sequence", "normalizers": [replace] * 60}
    directory("rules", "rules that double a text 60 times", {"tokenizer.json": tokenizer(normalizer=rules)},
         "{path}/tokenizer.json is not valid: the text could not be tokenized: the tokenizer's rules make the text "
         "more than 16 times as long", "run")
    directory("beyond_table", "more tokens than embeddings", {
        "config.json": config(vocab_size=8), "model.safetensors": safetensors(header(rows=8)),
    },
         "{path}/tokenizer.json: the tokenizer has 16 tokens, but the model's embedding table 8 rows: token 8 "
         "(\"f\") has none; tokenizer and weights do not belong together", "run")
    template = lambda source: {"tokenizer_config.json": {"chat_template": source}}
    directory("loops", "a chat template of 10^10 loops",
              template("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
         "the chat template took more than 1000000 steps on this conversation: it loops, or the conversation is too long "
         "for it", "run")
    directory("multiplied", "a chat template that writes 10^9 letters", template("{{ 'a' * 10**9 }}"),
         "the chat template failed on this conversation: invalid operation: a value grows without end: more than 32 "
         "MiB of text, or 1048576 items (line 1)", "run")
    directory("doubled", "a chat template that doubles a text 99 times",
              template("{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}"),
         "the chat template failed on this conversation: invalid operation: a value grows without end: more than 32 "
         "MiB of text, or 1048576 items (line 1)", "run")
    directory("recursive", "a chat template that calls itself without end",
              template("{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}"),
         "the chat template failed on this conversation: invalid operation: recursion limit exceeded (line 1)", "run")


def main():
    global FOLDER
    FOLDER = sys.argv[1]
    gguf_files()
    safetensors_files()
    text_files()
    with open(os.path.join(FOLDER, "corpus.json"), "w") as out:
        json.dump(ENTRIES, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
