/* run_model - the shortest useful program on libinlay: loads a model, fills its inputs with zeroes, runs it, and prints
 * the outputs.
 *
 *     run_model MODEL.onnx */
#include <inlay/inlay.h>
#include <stdio.h>

enum { MAX_RANK = 16 };

/* Binds zeroes in the shape that the model declares; a symbolic dimension becomes 1. */
static inlay_status bind_zeroes(inlay_session *session, inlay_context *context, uint32_t index, inlay_diag *diag)
{
    inlay_io_info info = { .struct_size = sizeof info };
    int64_t dims[MAX_RANK];
    inlay_value *value = NULL;
    inlay_status status = inlay_session_input(session, index, &info);
    uint32_t rank = info.rank <= MAX_RANK ? info.rank : 0;

    for (uint32_t d = 0; d < rank; d++)
        dims[d] = info.dims[d] >= 0 ? info.dims[d] : 1;
    if (status == INLAY_OK)
        status = inlay_value_create(info.dtype, rank, dims, &value, diag);
    if (status == INLAY_OK)
        status = inlay_context_set_input(context, index, value, diag);
    inlay_value_unref(value); /* the context keeps a reference */
    return status;
}

static void print_output(inlay_session *session, inlay_context *context, uint32_t index)
{
    const inlay_value *value = inlay_context_output(context, index);
    inlay_io_info info = { .struct_size = sizeof info };

    if (inlay_session_output(session, index, &info) != INLAY_OK || value == NULL)
        return;
    printf("%s: %s[", info.name, inlay_dtype_name(inlay_value_dtype(value)));
    for (uint32_t d = 0; d < inlay_value_rank(value); d++)
        printf("%s%lld", d > 0 ? "," : "", (long long)inlay_value_dims(value)[d]);
    printf("]");
    for (int64_t i = 0; inlay_value_dtype(value) == INLAY_FLOAT && i < inlay_value_count(value) && i < 5; i++)
        printf(" %g", (double)((const float *)inlay_value_data(value))[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    inlay_status status = INLAY_INVALID_ARGUMENT;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    inlay_context *context = NULL;

    if (argc != 2) {
        fprintf(stderr, "usage: run_model MODEL.onnx\n");
        return 2;
    }
    INLAY_TRY(inlay_session_create(argv[1], NULL, &session, &diag)); /* loads, optimises, chooses providers, compiles */
    INLAY_TRY(inlay_context_create(session, &context, &diag));       /* one per thread that runs the model */
    for (uint32_t i = 0; i < inlay_session_input_count(session); i++)
        INLAY_TRY(bind_zeroes(session, context, i, &diag));
    INLAY_TRY(inlay_context_run(context, NULL, &diag));
    for (uint32_t i = 0; i < inlay_session_output_count(session); i++)
        print_output(session, context, i);
done:
    if (status != INLAY_OK)
        fprintf(stderr, "run_model: %s\n", diag.text);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    return status == INLAY_OK ? 0 : 1;
}
