/* codecs/datatype.h - the element types of the Open Inference Protocol: names, JSON, raw bytes. */
#ifndef CODECS_DATATYPE_H
#define CODECS_DATATYPE_H
#include "inlay/inlay.h"
#include "base/strbuf.h"
#include "codecs/json.h"

/* X(name in the protocol, dtype). BYTES is ONNX's string. The protocol has FP16 and BF16 as raw bytes only. */
#define DATATYPE_LIST(X)                                                                                               \
    X("BOOL", BOOL)                                                                                                    \
    X("UINT8", UINT8)                                                                                                  \
    X("UINT16", UINT16)                                                                                                \
    X("UINT32", UINT32)                                                                                                \
    X("UINT64", UINT64)                                                                                                \
    X("INT8", INT8)                                                                                                    \
    X("INT16", INT16)                                                                                                  \
    X("INT32", INT32)                                                                                                  \
    X("INT64", INT64)                                                                                                  \
    X("FP16", FLOAT16)                                                                                                 \
    X("FP32", FLOAT)                                                                                                   \
    X("FP64", DOUBLE)                                                                                                  \
    X("BF16", BFLOAT16)                                                                                                \
    X("BYTES", STRING)

/* INLAY_UNDEFINED for an unknown name. */
inlay_dtype datatype_find(const char *name, size_t bytes);
/* NULL for a type that the protocol does not have. */
const char *datatype_name(inlay_dtype dtype);
/* Size of an element in memory; 16 for BYTES, an inlay_str. */
uint32_t datatype_bytes(inlay_dtype dtype);
/* Stores a number as element i of `out`, a tensor of that integer type; false: it is out of range. */
bool datatype_store_signed(int64_t value, inlay_dtype dtype, void *out, uint64_t i);
bool datatype_store_unsigned(uint64_t value, inlay_dtype dtype, void *out, uint64_t i);

/* Reads a JSON value with `count` elements, in arrays of any nesting, into out. Strings are decoded in place; out
 * points to them. A failure's message names the tensor `name`. */
INLAY_NODISCARD inlay_status datatype_read_json(json_text value, inlay_dtype dtype, uint64_t count, void *out,
                                                const char *name, inlay_diag *diag);
/* Writes the elements, separated by commas. */
INLAY_NODISCARD inlay_status datatype_write_json(struct strbuf *to, inlay_dtype dtype, uint64_t count, const void *data,
                                                 const char *name, inlay_diag *diag);

/* BYTES as raw bytes: each element follows its length (4 bytes, little endian). out points into data. */
INLAY_NODISCARD inlay_status datatype_split_bytes(const char *data, uint64_t bytes, uint64_t count, inlay_str *out,
                                                  const char *name, inlay_diag *diag);
/* Number of raw bytes of a tensor, and those bytes. */
uint64_t datatype_raw_bytes(inlay_dtype dtype, uint64_t count, const void *data);
void datatype_write_raw(struct strbuf *to, inlay_dtype dtype, uint64_t count, const void *data);
#endif
