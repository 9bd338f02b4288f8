#include "model.h"
#include "texts/draft/graft.h"
#include <stdio.h>

enum { ROOM = 512 };

static bool complain(const char *what, const inlay_diag *diag)
{
    fprintf(stderr, "generate: %s: %s\n", what, diag->text);
    return false;
}

void model_close(struct model *model)
{
    inlay_context_destroy(model->context);
    inlay_session_destroy(model->session);
    wire_deinit(&model->made);
}

static bool is_state(const struct model *model, uint32_t input)
{
    inlay_state_info info = { .struct_size = sizeof info };

    for (uint32_t i = 0; inlay_session_state(model->session, i, &info) == INLAY_OK; i++)
        if (info.input == input)
            return true;
    return false;
}

bool model_keep(struct model *model)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    return inlay_context_keep_states(model->context, ROOM, &diag) == INLAY_OK || complain(model->path, &diag);
}

bool model_check(struct model *model)
{
    inlay_io_info info = { .struct_size = sizeof info };

    if (!model_keep(model))
        return false;
    model->ids = inlay_session_find_input(model->session, "input_ids");
    model->mask = inlay_session_find_input(model->session, "attention_mask");
    model->positions = inlay_session_find_input(model->session, "position_ids");
    model->logits = inlay_session_find_output(model->session, "logits");
    model->last_logits = inlay_session_find_input(model->session, "last_logits");
    for (uint32_t i = 0; inlay_session_input(model->session, i, &info) == INLAY_OK; i++) {
        const bool mine = i == model->ids || i == model->mask || i == model->positions;

        if ((mine && info.dtype != INLAY_INT64) || (!mine && !is_state(model, i) && info.optional == 0)) {
            fprintf(stderr, "generate: input '%s' of %s is not supported by this program\n", info.name,
                    inlay_dtype_name(info.dtype));
            return false;
        }
    }
    if (model->ids != INLAY_NONE && model->logits != INLAY_NONE)
        return true;
    fprintf(stderr, "generate: the model has no input 'input_ids', or no output 'logits'\n");
    return false;
}

static inlay_status open_session(const inlay_options *options, struct model *model, inlay_diag *diag)
{
    return model->made.count > 0
               ? inlay_session_create_from_bytes(model->made.bytes, model->made.count, options, &model->session, diag)
               : inlay_session_create(model->path, options, &model->session, diag);
}

bool model_open(const char *path, const char *threads, const char *of, struct model *model)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    bool ok = inlay_options_create(&options, &diag) == INLAY_OK &&
              inlay_options_load(options, NULL, &diag) == INLAY_OK &&
              inlay_options_load_environment(options, &diag) == INLAY_OK &&
              /* most runs read one token */
              inlay_options_set(options, "dim", "sequence_length~=1", &diag) == INLAY_OK &&
              inlay_options_set(options, "dim", "batch_size~=1", &diag) == INLAY_OK &&
              inlay_options_set(options, "last_logits", "1", &diag) == INLAY_OK &&
              (threads == NULL || inlay_options_set(options, "intra_threads", threads, &diag) == INLAY_OK) &&
              (of == NULL || text_graft(path, of, options, &model->made, &diag) == INLAY_OK);

    model->path = path;
    ok = ok && open_session(options, model, &diag) == INLAY_OK &&
         inlay_context_create(model->session, &model->context, &diag) == INLAY_OK;
    inlay_options_destroy(options);
    if (!ok)
        return complain(path, &diag);
    model->end_count = files_ends(path, model->ends);
    return true;
}

/* Sets an integer input of shape [1, count] (rank 2) or [count] to `given`, or, if that is NULL, to first, first +
 * step, ... */
static bool set_integers(struct model *model, uint32_t input, uint32_t rank, const int64_t *given, int64_t first,
                         int64_t step, int64_t count, inlay_diag *diag)
{
    const int64_t dims[] = { 1, count };
    inlay_value *v = NULL;
    int64_t *to;
    bool ok;

    if (input == INLAY_NONE)
        return true;
    if (inlay_value_create(INLAY_INT64, rank, dims + 2 - rank, &v, diag) != INLAY_OK)
        return false;
    to = inlay_value_data(v);
    for (int64_t i = 0; i < count; i++)
        to[i] = given != NULL ? given[i] : first + i * step;
    ok = inlay_context_set_input(model->context, input, v, diag) == INLAY_OK;
    inlay_value_unref(v);
    return ok;
}

bool model_read(struct model *model, const int64_t *tokens, int64_t count, int64_t guesses, float **logits,
                size_t *vocabulary)
{
    return model_read_at(model, tokens, inlay_context_state_length(model->context), count, guesses, logits, vocabulary);
}

bool model_read_at(struct model *model, const int64_t *tokens, int64_t past, int64_t count, int64_t guesses,
                   float **logits, size_t *vocabulary)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *y;

    if (!set_integers(model, model->ids, 2, tokens, 0, 0, count, &diag) ||
        !set_integers(model, model->mask, 2, NULL, 1, 0, past + count, &diag) ||
        !set_integers(model, model->positions, 2, NULL, past, 1, count, &diag) ||
        !set_integers(model, model->last_logits, 1, NULL, 0, 0, guesses + 1, &diag) ||
        inlay_context_run(model->context, NULL, &diag) != INLAY_OK)
        return complain("the model did not run", &diag);
    y = inlay_context_output(model->context, model->logits);
    if (y == NULL || inlay_value_dtype(y) != INLAY_FLOAT || inlay_value_rank(y) != 3 || inlay_value_count(y) == 0) {
        fprintf(stderr, "generate: 'logits' is not a float tensor [1, tokens, vocabulary]\n");
        return false;
    }
    if (inlay_value_dims(y)[1] <= guesses) {
        fprintf(stderr,
                "generate: the model returns the logits of the last token alone; do not set --lookup or --draft\n");
        return false;
    }
    *vocabulary = (size_t)inlay_value_dims(y)[2];
    *logits = (float *)inlay_value_data(y) + (inlay_value_dims(y)[1] - 1 - guesses) * inlay_value_dims(y)[2];
    return true;
}

bool model_rewind(struct model *model, size_t length)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    return (size_t)inlay_context_state_length(model->context) <= length ||
           inlay_context_state_rewind(model->context, (int64_t)length, &diag) == INLAY_OK ||
           complain("tokens cannot be dropped; do not set --lookup or --draft", &diag);
}
