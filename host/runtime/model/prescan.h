/* model/prescan.h - checks a file's wire format within limits and takes the tensors' payloads out.
 *
 * protobuf-c copies every payload, refuses fields above 2 GiB and recurses as deep as the file says. So it never sees
 * the file: the prescan walks it once, with a stack of its own, and writes a copy in which each payload of a Tensor is
 * replaced by a place, three numbers in the field `place`: the payload's field number, its offset in the file, and its
 * length in bytes. What comes out is small, of bounded depth, and well formed.
 *
 * Lists of an attribute are replaced likewise, once their elements were checked.
 *
 * One bit more: repeated numbers may be stored one by one, each behind its own tag (old writers do). A run of such
 * elements is one place, marked by PRESCAN_TAGGED in the field number and beginning with the first tag. */
#ifndef MODEL_PRESCAN_H
#define MODEL_PRESCAN_H
#include "model/model.h"

#define PRESCAN_TAGGED (UINT64_C(1) << 32)

/* What the outermost message is. */
typedef enum prescan_root {
    PRESCAN_MODEL,
    PRESCAN_TENSOR,
    PRESCAN_SEQUENCE,
    PRESCAN_OPTIONAL,
    PRESCAN_MAP,
    PRESCAN_SPARSE
} prescan_root;

typedef struct prescan_result {
    uint8_t *bytes; /* the rewritten stream; free() it */
    size_t count;
    uint64_t node_count;   /* of all graphs and functions */
    uint64_t tensor_count; /* of all kinds */
} prescan_result;

/* file is only read. limits with its defaults filled in. INLAY_INVALID_MODEL names the byte, the message and the field;
 * INLAY_LIMIT_EXCEEDED names the limit. */
INLAY_NODISCARD inlay_status prescan(const void *file, size_t bytes, prescan_root root, const model_limits *limits,
                                     prescan_result *out, inlay_diag *diag);

/* Wire types. */
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/* The elements that begin at *at, each behind the tag of one byte that is there: moves behind the last one that is
 * whole and says how many they are. at < end. (model/load_list.c, where loops over lists are made for speed.) */
uint64_t prescan_run(const uint8_t **at, const uint8_t *end, unsigned wire);

/* Reads a varint at *at (before end); false when it is cut off or longer than ten bytes. */
bool prescan_varint(const uint8_t **at, const uint8_t *end, uint64_t *out_value);
/* The same; of one or two bytes, as most are, without a call. */
static inline bool prescan_short(const uint8_t **at, const uint8_t *end, uint64_t *out_value)
{
    const uint8_t *p = *at;

    if (end - p < 2 || (p[0] & p[1] & 0x80) != 0)
        return prescan_varint(at, end, out_value);
    *out_value = p[0] < 0x80 ? p[0] : (uint64_t)(p[0] & 0x7f) | (uint64_t)p[1] << 7;
    *at = p + 1 + (p[0] >= 0x80);
    return true;
}
#endif
