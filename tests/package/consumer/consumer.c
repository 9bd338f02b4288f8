/* A program outside of the tree: writes a model for the operator of samples/custom_op and the kernels of
 * samples/provider_skeleton, runs it on both plugins, and checks the result.
 *
 *     consumer PLUGIN_DIRS MODEL_FILE */
#include <inlay/inlay.h>
#include <stdio.h>
#include <stdlib.h>
#include "onnx_bytes.h"

static const int64_t x_dims[] = { 2, 4 }, w_dims[] = { 4, 2 }, y_dims[] = { 2, 2 };
static float x[] = { 1, 3, 5, 7, 4, 4, 0, -8 };
static const float w[] = { 1, 0, 0, 1, 1, 1, 2, 0 };
static const float expected[] = { 17, 6, 6, 6 };

static char explained[65536];

static void append_text(void *user, const char *text, size_t bytes)
{
    size_t used = strlen(explained), room = sizeof explained - 1 - used;

    (void)user;
    memcpy(explained + used, text, bytes < room ? bytes : room);
}

/* MovingAverage of two, Relu, and a matrix multiplication with a constant. */
static int write_model(const char *path)
{
    onnx_bytes graph = { .count = 0 }, file = { .count = 0 };
    FILE *f = fopen(path, "wb");
    int bad;

    onnx_node_int(&graph, "MovingAverage", "com.example", "x", "m", "window", 2);
    onnx_node(&graph, "Relu", "", "m", "r");
    onnx_node(&graph, "MatMul", "", "r,w", "y");
    onnx_input(&graph, "x", INLAY_FLOAT, 2, x_dims);
    onnx_constant(&graph, "w", INLAY_FLOAT, 2, w_dims, w, sizeof w);
    onnx_output(&graph, "y", INLAY_FLOAT, 2, y_dims);
    bad = onnx_file(&file, &graph, 17, "com.example");
    bad |= f == NULL || fwrite(file.data, 1, file.count, f) != file.count;
    return (f != NULL && fclose(f) != 0) || bad;
}

int main(int argc, char **argv)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    inlay_value *value = NULL;
    inlay_status status;
    int wrong = 0;

    if (argc != 3 || write_model(argv[2]) != 0) {
        fprintf(stderr, "usage: consumer PLUGIN_DIRS MODEL_FILE\n");
        return 2;
    }
    INLAY_TRY(inlay_options_create(&options, &diag));
    INLAY_TRY(inlay_options_set(options, "plugin_dirs", argv[1], &diag));
    INLAY_TRY(inlay_options_set(options, "providers", "moving_average,skeleton,reference", &diag));
    INLAY_TRY(inlay_options_set(options, "policy", "priority", &diag));
    INLAY_TRY(inlay_session_create(argv[2], options, &session, &diag));
    INLAY_TRY(inlay_context_create(session, &context, &diag));
    INLAY_TRY(inlay_value_borrow(INLAY_FLOAT, 2, x_dims, x, sizeof x, &value, &diag));
    INLAY_TRY(inlay_context_set_input(context, 0, value, &diag));
    INLAY_TRY(inlay_context_run(context, NULL, &diag));
    for (int i = 0; i < 4; i++) {
        float got = ((const float *)inlay_value_data(inlay_context_output(context, 0)))[i];

        wrong += got != expected[i];
        printf("y[%d] = %g\n", i, (double)got);
    }
    INLAY_TRY(inlay_session_explain(session, NULL, append_text, NULL, &diag));
    if (strstr(explained, "moving_average") == NULL || strstr(explained, "skeleton") == NULL) {
        fprintf(stderr, "the session does not use the requested providers:\n%s\n", explained);
        wrong++;
    }
done:
    if (status != INLAY_OK)
        fprintf(stderr, "consumer: %s\n", diag.text);
    inlay_value_unref(value);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    inlay_options_destroy(options);
    return status != INLAY_OK || wrong != 0;
}
