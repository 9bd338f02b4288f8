/* serve/request/infer.h - an inference request and its reply, independent of the protocol.
 *
 * infer_parse_rest() reads untrusted bytes. It uses no model, socket or lock, so that a fuzzer can call it
 * (tests/fuzz/fuzz_request.c). */
#ifndef SERVE_INFER_H
#define SERVE_INFER_H
#include "inlay/inlay.h"
#include "base/strbuf.h"

enum { INFER_MAX_TENSORS = 256, SEQUENCE_ID_BYTES = 132 };

/* A part of a region of shared memory. */
typedef struct infer_region {
    const char *name; /* NUL-terminated; NULL = none */
    uint64_t offset, bytes;
} infer_region;

typedef struct infer_tensor {
    const char *name; /* NUL-terminated; points into the request's body */
    inlay_dtype dtype;
    uint32_t rank;
    int64_t dims[INLAY_MAX_RANK];
    uint64_t count; /* elements */
    uint64_t bytes; /* of data; elements of BYTES are inlay_str */
    void *data;     /* aligned to its elements; points into the request's body, or owned */
    bool owned;
    bool is_text;        /* its elements come from JSON, where BYTES are texts */
    char *buffer;        /* owned; data may point into it */
    infer_region region; /* where its elements are; shared_memory_load() reads them */
    uint32_t input;      /* index of the model's input, set by model_check() */
} infer_tensor;

typedef struct infer_wanted {
    const char *name;
    int binary;          /* 1, 0; -1: the request's default */
    infer_region region; /* shared_memory_store() writes it there */
    uint32_t output;     /* index of the model's output, set by model_check() */
} infer_wanted;

typedef struct infer_request {
    const char *id; /* "" = none */
    infer_tensor *inputs;
    infer_wanted *outputs; /* none: all outputs of the model */
    uint32_t input_count, output_count;
    bool binary_output;               /* default of outputs with binary -1 */
    uint64_t timeout_us;              /* 0 = none */
    uint64_t priority;                /* 1 = highest; 0 = the model's */
    char sequence[SEQUENCE_ID_BYTES]; /* "" = none */
    bool sequence_start, sequence_end;
    uint64_t copied_bytes; /* of tensors that could not be used in place */
} infer_request;

/* Reads the body of POST .../infer. Its first header_bytes bytes are JSON, the rest are tensors of the binary
 * extension; without that extension, header_bytes = bytes. The body is modified and must outlive the request. */
INLAY_NODISCARD inlay_status infer_parse_rest(char *body, size_t bytes, size_t header_bytes, infer_request *out_request,
                                              inlay_diag *diag);
/* Whether the last of the request's outputs has the name of an earlier one. */
bool infer_repeats_output(const infer_request *request);
void infer_request_deinit(infer_request *request);

/* Makes the request one with a single input, whose elements are the body: of BYTES one, which is the whole body. The
 * size of an open axis follows from the number of bytes. has_rows: the first axis may be that of a batch, which has one
 * row if another axis is open. The input's name is borrowed. */
INLAY_NODISCARD inlay_status infer_set_body(infer_request *request, const inlay_io_info *input, bool has_rows,
                                            char *body, size_t bytes, inlay_diag *diag);
/* Number of elements of a shape; false for a negative dimension or a product of more than 2^58. */
bool infer_count(uint32_t rank, const int64_t *dims, uint64_t *out_count);
/* Sets the request's sequence; "" and "0" are none. false: the id is too long or contains a NUL. */
bool infer_set_sequence(infer_request *request, const char *id, size_t bytes);
/* Sets the raw bytes of a tensor whose name, type and shape are set. Aligned bytes are referenced, others are copied.
 */
/* Converts the elements to another type if nothing is lost (element_convert). INLAY_INVALID_ARGUMENT: an element would
 * change, or the types have no common values. */
INLAY_NODISCARD inlay_status infer_convert(infer_request *request, infer_tensor *tensor, inlay_dtype dtype,
                                           inlay_diag *diag);
INLAY_NODISCARD inlay_status infer_set_raw(infer_request *request, infer_tensor *tensor, char *data, uint64_t bytes,
                                           inlay_diag *diag);

/* A tensor of a reply; borrowed. */
typedef struct infer_output {
    const char *name;
    inlay_dtype dtype;
    uint32_t rank;
    int64_t dims[INLAY_MAX_RANK];
    uint64_t count;
    const void *data;
} infer_output;

/* Copies a request with its tensors, but without names of shared memory; *out is independent of it. After a failure, it
 * may be freed by infer_request_deinit(), too. */
INLAY_NODISCARD inlay_status infer_request_copy(const infer_request *request, infer_request *out, inlay_diag *diag);
/* Copies a tensor of a reply into memory that free() releases: *out_memory. Its name is borrowed. */
INLAY_NODISCARD inlay_status infer_output_copy(const infer_output *output, infer_output *out, void **out_memory,
                                               inlay_diag *diag);
/* The bytes that infer_request_copy() and infer_output_copy() would allocate. */
uint64_t infer_request_bytes(const infer_request *request);
uint64_t infer_output_bytes(const infer_output *output);

/* What computed a reply; borrowed. */
typedef struct infer_source {
    const char *model, *version;
    const char *variant;  /* of a model package; NULL: none */
    double variant_error; /* negative: not stated */
} infer_source;

/* Writes the reply of POST .../infer into out. *out_header_bytes is the length of its JSON if binary tensors follow,
 * otherwise 0. */
INLAY_NODISCARD inlay_status infer_write_rest(const infer_request *request, const infer_source *source,
                                              const infer_output *outputs, uint32_t output_count, struct strbuf *out,
                                              size_t *out_header_bytes, inlay_diag *diag);
#endif
