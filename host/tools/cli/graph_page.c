#include "cli/graph_page.h"
#include "cli/load_model.h"
#include "report/model_json.h"

graph_model *graph_page_types(const cli_common *common, const char *path)
{
    inlay_diag ignored = INLAY_DIAG_INIT;
    graph_model *typed = NULL;

    if (cli_load_model(common, path, NULL, &typed, &ignored) == INLAY_OK)
        return typed;
    graph_model_destroy(typed);
    return NULL;
}

inlay_status graph_page_json(const cli_common *common, const char *path, graph_model *model, json_t **out,
                             inlay_diag *diag)
{
    graph_model *typed = graph_page_types(common, path);
    inlay_status status;

    (void)cli_progress(NULL, 0.8, "drawing");
    status = model_json(model, typed, path, out, diag);
    cli_progress_clear();
    graph_model_destroy(typed);
    if (status == INLAY_OK && cli_cancelled()) {
        json_decref(*out);
        *out = NULL;
        return inlay_fail(diag, INLAY_CANCELLED, "stopped");
    }
    return status;
}
