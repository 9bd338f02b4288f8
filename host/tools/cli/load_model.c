#include "cli/load_model.h"
#include "cli/plugins.h"
#include "session/session.h"

inlay_status cli_load_model(const cli_common *common, const char *path, const model_load_options *load,
                            graph_model **out_model, inlay_diag *diag)
{
    const model_load_options as_session = session_load_options(common->options);
    graph_model *model = NULL;
    plugin_set *plugins = NULL;
    inlay_status status;

    load = load != NULL ? load : &as_session;
    INLAY_TRY(model_load_path(path, load, out_model, diag));
    model = *out_model;
    (void)cli_progress(NULL, 0.3, "binding operators");
    INLAY_TRY(cli_plugins(common, 0, &plugins, diag));
    INLAY_TRY(graph_inline_functions(model, diag));
    INLAY_TRY(graph_bind(model, plugin_set_operators(plugins), diag));
    (void)cli_progress(NULL, 0.6, "inferring shapes");
    INLAY_TRY(graph_infer(model, diag));
    INLAY_TRY(graph_check_declared(model, diag));
done:
    if (model != NULL && load->out_fault != NULL)
        *load->out_fault = model->findings.fault;
    if (status == INLAY_OK) /* collected errors are among the findings */
        *diag = (inlay_diag)INLAY_DIAG_INIT;
    cli_progress_clear();
    plugin_set_destroy(plugins);
    return status;
}

bool cli_is_misuse(inlay_status status)
{
    return status == INLAY_INVALID_ARGUMENT || status == INLAY_NOT_FOUND || status == INLAY_IO_ERROR;
}
