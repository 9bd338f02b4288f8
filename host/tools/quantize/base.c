#include "quantize/base.h"
#include "modelkit/edit.h"
#include "modelkit/opset.h"

inlay_status base_open(const quantize_args *args, int64_t opset, inlay_session **out_session, inlay_diag *diag)
{
    const session_watch watch = { .newest_opset = -1 };
    const session_source source = { .path = args->model, .fd = -1 };
    inlay_options *options = NULL;
    inlay_session *session = NULL;
    inlay_status status;

    *out_session = NULL;
    INLAY_TRY(evaluate_options(args->options, "level", "1", &options, diag));
    INLAY_TRY(inlay_options_set(options, "no_pass", "quantized_ops",
                                diag)); /* keep float operators between DequantizeLinear and QuantizeLinear */
    INLAY_TRY(session_prepare(&source, options, &watch, &session, diag));
    session->model->function_count = 0; /* all calls are inlined */
    INLAY_TRY(opset_raise(session->model, opset, diag));
    if (!edit_drop_unused(session->model->main)) { /* folded constants would count as bytes of the model */
        status = no_memory(diag, "for the model's constants");
        goto done;
    }
    *out_session = session;
    session = NULL;
done:
    inlay_session_destroy(session);
    inlay_options_destroy(options);
    return status;
}
