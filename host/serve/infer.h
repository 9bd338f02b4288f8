/* serve/infer.h - an inference request and its answer, whatever protocol they travel by.
 *
 * infer_parse_rest() takes bytes that anybody sent; nothing in it knows a model, a socket or a lock, so that a fuzzer
 * can call it (tests/fuzz/fuzz_request.c). */
#ifndef SERVE_INFER_H
#define SERVE_INFER_H
#include "inlay/inlay.h"
#include "base/strbuf.h"

enum { INFER_MAX_TENSORS = 256, SEQUENCE_ID_BYTES = 132 };

typedef struct infer_tensor {
    const char *name; /* NUL-terminated; lies in the request's body */
    inlay_dtype dtype;
    uint32_t rank;
    int64_t dims[INLAY_MAX_RANK];
    uint64_t count; /* elements */
    uint64_t bytes; /* of data; elements of BYTES are inlay_str */
    void *data;     /* aligned to its elements; in the request's body, or owned */
    bool owned;
    uint32_t input; /* of the model, once model_check() found it */
} infer_tensor;

typedef struct infer_wanted {
    const char *name;
    int binary;      /* 1, 0; -1: as the request says for all */
    uint32_t output; /* of the model, once model_check() found it */
} infer_wanted;

typedef struct infer_request {
    const char *id; /* "" = none */
    infer_tensor *inputs;
    infer_wanted *outputs; /* none: all of the model */
    uint32_t input_count, output_count;
    bool binary_output;               /* of outputs that do not say */
    uint64_t timeout_us;              /* 0 = none */
    uint64_t priority;                /* 1 = highest; 0 = the model's */
    char sequence[SEQUENCE_ID_BYTES]; /* "" = of none */
    bool sequence_start, sequence_end;
    uint64_t copied_bytes; /* of tensors that could not stay where they arrived */
} infer_request;

/* Reads the body of POST .../infer. The first header_bytes of it are JSON, the rest are the tensors of the binary
 * extension; without that, header_bytes = bytes. body is written to, and must stay as long as the request. */
INLAY_NODISCARD inlay_status infer_parse_rest(char *body, size_t bytes, size_t header_bytes, infer_request *out_request,
                                              inlay_diag *diag);
void infer_request_deinit(infer_request *request);

/* Elements of a tensor of that shape; false for a negative size or a product beyond 2^62. */
bool infer_count(uint32_t rank, const int64_t *dims, uint64_t *out_count);
/* The id as the request's sequence; "" and "0" are none. false: it is too long, or has a NUL. */
bool infer_set_sequence(infer_request *request, const char *id, size_t bytes);
/* Gives the tensor, whose name, type and shape are set, the raw bytes at data: pointed to where they are aligned,
 * copied where not. */
INLAY_NODISCARD inlay_status infer_set_raw(infer_request *request, infer_tensor *tensor, char *data, uint64_t bytes,
                                           inlay_diag *diag);

/* A tensor of an answer; borrowed. */
typedef struct infer_output {
    const char *name;
    inlay_dtype dtype;
    uint32_t rank;
    int64_t dims[INLAY_MAX_RANK];
    uint64_t count;
    const void *data;
} infer_output;

/* Writes the answer of POST .../infer into out. *out_header_bytes is the length of its JSON, if tensors follow it as
 * binary data, otherwise 0. */
INLAY_NODISCARD inlay_status infer_write_rest(const infer_request *request, const char *model, const char *version,
                                              const infer_output *outputs, uint32_t output_count, struct strbuf *out,
                                              size_t *out_header_bytes, inlay_diag *diag);
#endif
