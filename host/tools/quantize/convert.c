#include "quantize/convert.h"
#include "quantize/evaluate.h"
#include "modelkit/opset.h"
#include "session/session.h"
#include <stdio.h>

/* The replacement of a node may accept fewer types than the node did. */
static inlay_status check_types(graph_model *model, int64_t opset, inlay_diag *diag)
{
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status = graph_bind(model, NULL, &why);

    if (status == INLAY_OK)
        status = graph_infer(model, &why);
    if (status == INLAY_OK || status == INLAY_OUT_OF_MEMORY)
        return status == INLAY_OK ? INLAY_OK : inlay_fail(diag, status, "%s", why.text);
    return inlay_fail(diag, INLAY_UNSUPPORTED, "the model cannot be converted to opset %lld: %s", (long long)opset,
                      why.text);
}

/* An option applies once: when the original file is read, or when the converted file is used. */
static const char *const for_original[] = { "dim",    "error_table", "external_dir", "freeze_defaults", "max_error",
                                            "reduce", NULL };
static const char *const for_converted[] = { "adapter",       "forbid", "level",   "max_partitions",
                                             "memory_limit",  "no_cpu", "no_pass", "pass",
                                             "pin",           "plan",   "require", "tap",
                                             "rewrite_limit", "state",  NULL };

inlay_status convert_options(const inlay_options *given, inlay_options **out_options, inlay_diag *diag)
{
    inlay_options *copy = NULL;
    inlay_status status;
    option_pair pair;

    *out_options = NULL;
    INLAY_TRY(evaluate_options_without(given, for_original, &copy, diag));
    for (uint32_t i = 0; options_pair(given, OPTION_dim, i, &pair); i++)
        if (option_dim_is_estimate(&pair)) /* the dimension is still open in the converted file */
            INLAY_TRY(inlay_options_set(copy, "dim", options_list(given, OPTION_dim, i), diag));
    *out_options = copy;
    copy = NULL;
done:
    inlay_options_destroy(copy);
    return status;
}

inlay_status convert_file(const char *path, const inlay_options *options, int64_t opset, const struct scratch *scratch,
                          char *out, inlay_diag *diag)
{
    const session_watch watch = { .newest_opset = -1, .later_opset = opset };
    const session_source source = { .path = path, .fd = -1 };
    const model_save_options save = { .external_file = "tensors" };
    inlay_options *only = NULL;
    inlay_session *session = NULL;
    inlay_status status;

    INLAY_TRY(evaluate_options_without(options, for_converted, &only, diag));
    INLAY_TRY(inlay_options_set(only, "pass", "constant_nodes", diag));
    INLAY_TRY(inlay_options_set(only, "level", "1", diag));
    INLAY_TRY(inlay_options_set(only, "no_pass", "quantized_ops", diag));
    INLAY_TRY(session_prepare(&source, only, &watch, &session, diag));
    session->model->function_count = 0; /* all calls are inlined */
    INLAY_TRY(opset_convert(session->model, opset, diag));
    INLAY_TRY(check_types(session->model, opset, diag));
    (void)snprintf(out, PATH_MAX, "%s/converted.onnx", scratch->dir);
    status = model_save(session->model, out, &save, diag);
done:
    inlay_session_destroy(session);
    inlay_options_destroy(only);
    return status;
}
