/* run_decode.c - image decoding as a kit kernel, see run_decode.h. */
#include "prepost/image/run_decode.h"
#include <stdlib.h>

const inlay_option decode_options[1] = { { .name = "max_pixels",
                                           .doc = "limit: pixels (width times height) of an image to decode",
                                           .default_value = "100000000",
                                           .min = 1,
                                           .max = (int64_t)PICTURE_MAX_SIDE * PICTURE_MAX_SIDE,
                                           .kind = INLAY_OPTION_INT } };

inlay_status decode_open(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag)
{
    int64_t *most = malloc(sizeof *most);

    (void)host;
    if (most == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to open the provider");
    *most = PICTURE_MAX_PIXELS;
    for (uint32_t i = 0; i < args->option_count; i++) {
        const inlay_option_value *value = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);

        if (strcmp(value->name, decode_options[0].name) == 0)
            *most = value->i;
    }
    *out = most;
    return INLAY_OK;
}

void decode_cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const int64_t bytes = shapes->in[0].count;

    (void)node;
    cost->ns = 5000 + 40.0 * (bytes >= 0 ? (double)bytes : 100000.0); /* typical for a JPEG */
    cost->confidence = bytes >= 0 ? INLAY_CONFIDENCE_MODEL : INLAY_CONFIDENCE_GUESS;
}

static uint8_t *allocate(void *user, int64_t height, int64_t width, int64_t channels)
{
    const kit_call *call = user;
    const int64_t dims[3] = { height, width, channels };

    return kit_alloc_output(call, 0, 3, dims) == INLAY_OK ? call->out[0].data : NULL;
}

inlay_status decode_run(const kit_call *call)
{
    const decode_state *state = call->state;
    picture_sink sink = { .order = state->order,
                          .max_pixels = state->max_pixels,
                          .alloc = allocate,
                          .user = (void *)(uintptr_t)call,
                          .diag = call->diag };

    return picture_decode(call->in[0].data, (size_t)call->in[0].count, &sink);
}
