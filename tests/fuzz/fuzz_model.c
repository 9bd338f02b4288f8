/* Any bytes as a model file: it loads, or fails with a message. Covers the prescan, the loader, inlining, binding,
 * shape inference and the dump.
 *
 * Built with Clang and -DINLAY_FUZZ=ON this is a libFuzzer program (README.md); linked with replay.c it is an
 * ordinary test that processes corpus/model. */
#include "model/model.h"
#include "modelkit/dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void count(void *ctx, const char *text, size_t bytes)
{
    (void)text;
    *(size_t *)ctx += bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    /* Small limits, so that inputs do not spend time on running out of memory. */
    model_load_options options = { .limits = { .nodes = 10000,
                                               .values = 10000,
                                               .tensor_bytes = 1 << 24,
                                               .densified_bytes = 1 << 16,
                                               .parsed_bytes = 1 << 22 } };
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model;
    size_t written = 0;
    inlay_status status = model_load_bytes(data, bytes, &options, &model, &diag);

    if (status == INLAY_OK)
        status = graph_inline_functions(model, &diag);
    if (status == INLAY_OK)
        status = graph_bind(model, NULL, &diag);
    if (status == INLAY_OK)
        status = graph_infer(model, &diag);
    if (model != NULL)
        graph_dump(model->main, count, &written);
    if (status != INLAY_OK && diag.text[0] == '\0')
        __builtin_trap(); /* a failure without a message */
    graph_model_destroy(model);
    return 0;
}
