"""What is taken out of a header, and what is refused."""

from __future__ import annotations

import cffi
import pytest

from ggmlprobe.errors import HeaderRefused
from ggmlprobe.ggml.llama.structs import STRUCTS, parse

HEADER = """
#ifndef LLAMA_H
#define LLAMA_H
#include "ggml.h" // struct llama_batch { int no; };
/* struct llama_batch { int nor_this; }; */
#define DEPRECATED(func, hint) \\
    func
typedef int32_t llama_pos; typedef int32_t llama_token;
typedef struct llama_memory_i * llama_memory_t;
typedef bool (*llama_progress_callback)(float progress, void * user_data);
enum llama_ftype {
    LLAMA_FTYPE_ALL_F32 = 0,
    // LLAMA_FTYPE_MOSTLY_Q4_1_SOME_F16 = 4,
    LLAMA_FTYPE_MOSTLY_Q8_0 = 7, // except 1d tensors
    LLAMA_FTYPE_NEXT,
    LLAMA_FTYPE_GUESSED = 0x400,
};
enum llama_flash_attn_type {
    LLAMA_FLASH_ATTN_TYPE_AUTO = -1, LLAMA_FLASH_ATTN_TYPE_DISABLED = 0,
    LLAMA_FLASH_ATTN_TYPE_LAST = LLAMA_FLASH_ATTN_TYPE_DISABLED,
    LLAMA_FLASH_ATTN_TYPE_BIT = 1 << 3
};
typedef struct llama_batch {
    int32_t n_tokens;
    llama_token  *  token; float * embd;
    llama_pos * * pos;
} llama_batch;
struct llama_model_params {
    const struct llama_model_tensor_buft_override * overrides;
    llama_progress_callback progress_callback; // called
    bool vocab_only;
};
struct llama_context_params {
    uint32_t n_ctx;
    enum llama_flash_attn_type flash_attn_type;
    enum ggml_type type_k;
    ggml_backend_sched_eval_callback cb_eval;
    llama_memory_t other;
    llama_pos first;
    float f; double d; size_t s; int8_t b;
};
struct llama_chat_message { const char * role; const char * content; };
struct llama_model_quantize_params { int32_t nthread; enum llama_ftype ftype; };
LLAMA_API struct llama_batch llama_batch_get_one(llama_token * tokens, int32_t n_tokens);
#endif
"""


def test_fields_in_order_with_their_types() -> None:
    header = parse(HEADER)
    assert tuple(header.structs) == STRUCTS
    fields = {name: [(f.name, f.type) for f in of] for name, of in header.structs.items()}
    pointer = "void *"
    assert fields["llama_batch"] == [
        ("n_tokens", "int32_t"), ("token", pointer), ("embd", pointer), ("pos", pointer),
    ]  # fmt: skip
    assert fields["llama_model_params"] == [
        ("overrides", pointer), ("progress_callback", pointer), ("vocab_only", "bool"),
    ]  # fmt: skip
    assert fields["llama_context_params"] == [
        ("n_ctx", "uint32_t"), ("flash_attn_type", "int"), ("type_k", "int"), ("cb_eval", pointer),
        ("other", pointer), ("first", "int32_t"), ("f", "float"), ("d", "double"),
        ("s", "size_t"), ("b", "int8_t"),
    ]  # fmt: skip


def test_enumerators() -> None:
    enums = parse(HEADER).enums
    assert enums["llama_ftype"] == {
        "LLAMA_FTYPE_ALL_F32": 0, "LLAMA_FTYPE_MOSTLY_Q8_0": 7, "LLAMA_FTYPE_NEXT": 8,
        "LLAMA_FTYPE_GUESSED": 1024,
    }  # fmt: skip
    assert list(enums["llama_flash_attn_type"].values()) == [-1, 0, 0, 8]


def test_cffi_takes_the_structs() -> None:
    ffi = cffi.FFI()
    ffi.cdef(parse(HEADER).cdef())
    assert ffi.sizeof("struct llama_context_params") == 64
    assert ffi.offsetof("struct llama_batch", "pos") == 24


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("int a, b;", "int a, b"),
        ("unsigned int a;", "unsigned int a"),
        ("int a : 3;", "int a : 3"),
        ("int a[4];", "int a[4]"),
        ("void (*call)(int);", "void (*call)(int)"),
        ("struct llama_other a;", "struct llama_other a"),
        ("enum llama_unknown a;", "enum llama_unknown a"),
        ("llama_unknown_t a;", "llama_unknown_t a"),
        ("bool vocab_only;", "repeated"),
        ("int a", "last field"),
        ("\n#ifdef X\nint a;\n#endif\nint b;", "# int a"),
        ("union { int a; float b; };", "0 plain definitions"),
    ],
)
def test_a_field_that_is_not_understood(field: str, says: str) -> None:
    edited = HEADER.replace("bool vocab_only;", f"bool vocab_only; {field}")
    with pytest.raises(HeaderRefused, match="--llama-h") as refused:
        parse(edited)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("struct", STRUCTS)
def test_a_struct_that_is_missing_empty_or_there_twice(struct: str) -> None:
    for edited in (
        HEADER.replace(f"struct {struct} {{", f"struct {struct}_2 {{"),
        HEADER + f"struct {struct} {{ int a; }};",
        HEADER.replace(f"struct {struct} {{", f"struct {struct} {{ }}; struct {struct}_2 {{"),
    ):
        with pytest.raises(HeaderRefused, match=f"{struct}"):
            parse(edited)


def test_another_file() -> None:
    for text in ("", "\0\xff" * 100, "struct llama_batch {" * 1000):
        with pytest.raises(HeaderRefused):
            parse(text)


@pytest.mark.parametrize("entry", ["A = B,", "A = 1 + 1,", "A = 'x',", "A B,"])
def test_an_enumerator_that_is_not_understood(entry: str) -> None:
    with pytest.raises(HeaderRefused, match="not understood"):
        parse(HEADER.replace("LLAMA_FTYPE_NEXT,", entry))
