#include "cli/doctor_repair.h"
#include "cli/load_model.h"
#include "data/scratch.h"
#include "modelkit/doctor_types.h"
#include "modelkit/opset.h"
#include <limits.h>

enum { MOST_ROUNDS = 8 }; /* a Cast may reveal the type of the next node */

/* Loads the model and continues after errors. *out_error is the first one; INLAY_OK: there is none. */
static inlay_status load(const cli_common *common, const char *path, graph_model **out_model, inlay_diag *out_error,
                         inlay_diag *diag)
{
    const model_load_options options = { .collect = true };
    inlay_status status = cli_load_model(common, path, &options, out_model, diag);

    *out_error = (inlay_diag)INLAY_DIAG_INIT;
    for (const graph_finding *found = status == INLAY_OK ? (*out_model)->findings.first : NULL;
         found != NULL && out_error->code == INLAY_OK; found = found->next)
        if (found->status != INLAY_OK)
            (void)inlay_fail(out_error, found->status, "%s", found->text);
    return status;
}

static inlay_status save(const struct scratch *scratch, const char *name, graph_model *model, char *path,
                         inlay_diag *diag)
{
    inlay_status status;

    model->function_count = 0; /* all calls are inlined */
    status = model_convert_versions(model, 0, diag);
    return status == INLAY_OK ? scratch_save(scratch, name, model, false, path, diag) : status;
}

/* Raises the opset to the lowest one whose operators take the types of the model. *out_opset: 0 = no opset does. */
static inlay_status raise_opset(const cli_common *common, const struct scratch *scratch, char *path, int64_t from,
                                int64_t *out_opset, inlay_diag *diag)
{
    graph_model *model = NULL;
    inlay_status status = INLAY_OK;

    *out_opset = 0;
    for (int64_t opset = from + 1; opset <= op_domain_newest("ai.onnx") && *out_opset == 0; opset++) {
        inlay_diag error, why = INLAY_DIAG_INIT;
        char name[32], raised[PATH_MAX];

        INLAY_TRY(load(common, path, &model, &error, diag));
        if (opset_raise(model, opset, &why) == INLAY_OK) {
            (void)snprintf(name, sizeof name, "opset%d", (int)opset);
            INLAY_TRY(save(scratch, name, model, raised, diag));
            graph_model_destroy(model);
            model = NULL;
            INLAY_TRY(load(common, raised, &model, &error, diag));
            if (doctor_count_disallowed(model->main) == 0) {
                *out_opset = opset;
                (void)snprintf(path, PATH_MAX, "%s", raised);
            }
        }
        graph_model_destroy(model);
        model = NULL;
    }
done:
    graph_model_destroy(model);
    return status;
}

inlay_status doctor_repair(const cli_common *common, const char *model_path, const char *output, const char *external,
                           doctor_repair_result *out, inlay_diag *diag)
{
    struct scratch scratch = { .dir = "" };
    graph_model *model = NULL;
    inlay_diag error = INLAY_DIAG_INIT;
    char path[PATH_MAX];
    inlay_status status;

    *out = (doctor_repair_result){ 0 };
    (void)snprintf(path, sizeof path, "%s", model_path);
    INLAY_TRY(scratch_make(output, external, &scratch, diag));
    for (uint32_t round = 0; round < MOST_ROUNDS; round++) {
        uint32_t casts;
        int64_t opset;
        char name[32];

        graph_model_destroy(model);
        model = NULL;
        INLAY_TRY(load(common, path, &model, &error, diag));
        if (error.code == INLAY_OK)
            break;
        INLAY_TRY(doctor_insert_casts(model, &casts, diag));
        out->casts += casts;
        if (casts > 0) {
            (void)snprintf(name, sizeof name, "casts%u", round);
            INLAY_TRY(save(&scratch, name, model, path, diag));
            continue;
        }
        if (doctor_count_disallowed(model->main) == 0)
            break;
        INLAY_TRY(raise_opset(common, &scratch, path, graph_model_opset(model, "ai.onnx"), &opset, diag));
        if (opset == 0)
            break;
        out->opset = opset;
    }
    if (error.code != INLAY_OK)
        status = inlay_fail(diag, INLAY_UNSUPPORTED,
                            "nothing was written, because this fault has no repair, or several: %.380s", error.text);
    INLAY_TRY(status);
    INLAY_TRY(scratch_publish(&scratch, path, &out->bytes, diag));
done:
    graph_model_destroy(model);
    scratch_remove(&scratch);
    return status;
}
