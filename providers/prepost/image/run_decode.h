/* run_decode.h - image decoding as a kit kernel, shared by ImageDecoder and DecodeImage. */
#ifndef RUN_DECODE_H
#define RUN_DECODE_H
#include "inlay/kit_kernel.h"
#include "inlay/plugin.h"
#include "prepost/image/picture.h"

/* State made by prepare; freed with free(). */
typedef struct decode_state {
    picture_order order;
    int64_t max_pixels;
} decode_state;

void decode_cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost);
/* in[0]: the bytes of a file, [N]. out[0]: [height, width, channels]. */
inlay_status decode_run(const kit_call *call);

/* The option of both providers, and an open() whose *out is an int64_t with its value, to be freed. */
extern const inlay_option decode_options[1];
inlay_status decode_open(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag);
#endif
