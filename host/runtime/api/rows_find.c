/* api/rows_find.c - inlay.h: finds by test runs how a model distinguishes rows of different lengths. */
#include "api/context.h"
#include "base/sized_struct.h"
#include "inlay/check.h"
#include <math.h>
#include <string.h>

enum {
    LONG = 6,
    SHORT = 2,
    TRIED = 3, /* contexts */
    PARTS = 3,
    WHOLE = 80, /* tokens of a text whose parts must give the same bits: more than one vector or block of a kernel */
    ROOM = 64
};
static const double tolerance = 1e-3; /* kernels may depend on the shape */
static const int64_t long_text[LONG + 1] = { 5, 1, 7, 2, 6, 3, 4 }, short_text[SHORT + 1] = { 3, 6, 2 };

/* Contexts for short runs. */
struct rows_trial {
    inlay_session *session;
    const inlay_run_options *options;
    inlay_context *contexts[TRIED];
    inlay_status stopped; /* the failure of a run, if it says nothing about the model */
};

static bool find_number_input(const inlay_session *session, const char *name, uint32_t *out_input)
{
    *out_input = inlay_session_find_input(session, name);
    return *out_input != INLAY_NONE && session->inputs[*out_input].dtype == INLAY_INT64;
}

/* Finds the inputs and the output, and checks that the others can be left unbound. */
static inlay_status find_ports(const inlay_session *session, inlay_rows_info *info, inlay_diag *diag)
{
    const struct {
        const char *name;
        uint32_t *input;
    } roles[] = { { "input_ids", &info->tokens },
                  { "attention_mask", &info->mask },
                  { "position_ids", &info->positions } };

    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (!find_number_input(session, roles[i].name, roles[i].input) && (i == 0 || *roles[i].input != INLAY_NONE))
            return inlay_fail(diag, INLAY_UNSUPPORTED, "the model has no input '%s' of int64", roles[i].name);
    info->logits = inlay_session_find_output(session, "logits");
    if (info->logits == INLAY_NONE)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the model has no output 'logits'");
    for (uint32_t i = 0; i < inlay_session_input_count(session); i++)
        if (i != info->tokens && i != info->mask && i != info->positions &&
            run_states_of_input(&session->env, i) == INLAY_NONE && session->inputs[i].optional == 0)
            return inlay_fail(diag, INLAY_UNSUPPORTED,
                              "input '%s' is neither a state nor one of 'input_ids', 'attention_mask' and "
                              "'position_ids'; option state declares states",
                              session->inputs[i].name);
    return INLAY_OK;
}

static void sum_bytes(const inlay_session *session, inlay_rows_info *info)
{
    for (uint32_t k = 0; k < session->env.state_count; k++) {
        const inlay_io_info *io = &session->inputs[session->env.states[k].input];
        const uint32_t axis = session->env.states[k].axis;
        uint64_t bytes = inlay_dtype_bits(io->dtype) / 8;

        for (uint32_t d = 1; d < io->rank; d++)
            bytes *= d != axis && io->dims[d] > 0 ? (uint64_t)io->dims[d] : 1;
        *(axis == INLAY_NONE ? &info->fixed_bytes : &info->token_bytes) += bytes;
    }
}

/* Whether rows can be more than one by the shapes that the model declares. */
static bool may_have_rows(const inlay_session *session, const inlay_rows_info *info)
{
    const inlay_io_info *ids = &session->inputs[info->tokens];
    bool grows = false;

    if (ids->rank != 2 || ids->dims[0] >= 0)
        return false;
    for (uint32_t k = 0; k < session->env.state_count; k++) {
        const inlay_io_info *io = &session->inputs[session->env.states[k].input];
        const uint32_t axis = session->env.states[k].axis;

        if (io->rank == INLAY_RANK_UNKNOWN || io->rank == 0 || io->dims[0] >= 0 || axis == 0)
            return false;
        grows |= axis != INLAY_NONE;
    }
    return !grows || info->mask != INLAY_NONE;
}

static bool keep_in(struct rows_trial *trial, inlay_status status)
{
    if (status == INLAY_OUT_OF_MEMORY || status == INLAY_CANCELLED || status == INLAY_DEADLINE_EXCEEDED ||
        status == INLAY_DEVICE_LOST)
        trial->stopped = status;
    return status == INLAY_OK;
}

/* Makes each context keep rows of this layout, the first two an empty one. */
static bool begin(struct rows_trial *trial, inlay_rows_info info, uint32_t layout)
{
    const inlay_row empty = { .context = NULL };

    info.layout = layout;
    for (uint32_t i = 0; i < TRIED; i++)
        if (!keep_in(trial, inlay_context_keep_rows(trial->contexts[i], &info, ROOM, NULL)) ||
            (i < 2 && !keep_in(trial, inlay_context_set_rows(trial->contexts[i], &empty, 1, NULL))))
            return false;
    return true;
}

/* Runs `count` further tokens of each row. *out_logits: those of the last tokens, [rows, *out_words], borrowed. */
static bool run_rows(struct rows_trial *trial, uint32_t which, const int64_t *tokens, int64_t count,
                     const float **out_logits, size_t *out_words)
{
    inlay_context *context = trial->contexts[which];
    const uint32_t rows = inlay_context_row_count(context), output = context->rows.info.logits;
    const inlay_value *logits;
    const int64_t *dims;

    if (!keep_in(trial, inlay_context_set_tokens(context, tokens, count, NULL)) ||
        !keep_in(trial, inlay_context_run(context, trial->options, NULL)))
        return false;
    logits = inlay_context_output(context, output);
    dims = logits != NULL ? inlay_value_dims(logits) : NULL;
    if (dims == NULL || inlay_value_rank(logits) != 3 || dims[0] != rows || dims[1] < 1 ||
        inlay_value_dtype(logits) != INLAY_FLOAT || inlay_value_data(logits) == NULL || (rows > 1 && dims[1] != 1))
        return false;
    *out_words = (size_t)dims[2];
    *out_logits = (const float *)inlay_value_data(logits) + (dims[1] - 1) * dims[2];
    return true;
}

/* With option reproducible: whether the logits have the same bits. */
static bool are_alike(const struct rows_trial *trial, const float *left, const float *right, size_t count)
{
    size_t most = 0, other = 0;

    if (trial->session->reproducible)
        return memcmp(left, right, count * sizeof *left) == 0;
    for (size_t i = 0; i < count; i++) {
        if (!(fabs((double)left[i] - (double)right[i]) <= tolerance * fmax(1, fabs((double)left[i]))))
            return false;
        most = left[i] > left[most] ? i : most;
        other = right[i] > right[other] ? i : other;
    }
    return most == other || left[most] - left[other] < 1e-4f;
}

/* Whether a long and a short text have the same logits together as alone. */
static bool holds_together(struct rows_trial *trial, const inlay_rows_info *info, uint32_t layout)
{
    const int64_t next[2] = { long_text[LONG], short_text[SHORT] };
    const inlay_row rows[2] = { { .context = trial->contexts[0], .length = LONG },
                                { .context = trial->contexts[1], .length = SHORT } };
    const float *alone[2], *both;
    size_t words, others;

    return trial->stopped == INLAY_OK && begin(trial, *info, layout) &&
           run_rows(trial, 0, long_text, LONG, &alone[0], &words) &&
           run_rows(trial, 1, short_text, SHORT, &alone[1], &words) &&
           keep_in(trial, inlay_context_set_rows(trial->contexts[2], rows, 2, NULL)) &&
           run_rows(trial, 0, &next[0], 1, &alone[0], &words) && run_rows(trial, 1, &next[1], 1, &alone[1], &words) &&
           run_rows(trial, 2, next, 1, &both, &others) && words == others && are_alike(trial, alone[0], both, words) &&
           are_alike(trial, alone[1], both + words, words);
}

/* Whether the states of the first two contexts have the same bits. Logits may hide a difference, if they saturate. */
static bool have_same_states(struct rows_trial *trial)
{
    bool same = true;

    for (uint32_t k = 0; same && k < trial->session->env.state_count; k++) {
        inlay_value *states[2] = { NULL, NULL };

        same = keep_in(trial, inlay_context_state_get(trial->contexts[0], k, &states[0], NULL)) &&
               keep_in(trial, inlay_context_state_get(trial->contexts[1], k, &states[1], NULL)) &&
               inlay_value_bytes(states[0]) == inlay_value_bytes(states[1]) &&
               memcmp(inlay_value_data(states[0]), inlay_value_data(states[1]), inlay_value_bytes(states[0])) == 0;
        inlay_value_unref(states[0]);
        inlay_value_unref(states[1]);
    }
    return same;
}

/* Whether a text has the same logits if it is read in parts. With option reproducible the text is longer, so that sums
 * in another order show. */
static bool reads_parts(struct rows_trial *trial, const inlay_rows_info *info)
{
    static const int64_t few[PARTS] = { 3, 1, LONG - 4 }, many[PARTS] = { 37, 12, WHOLE - 49 };
    const int64_t *parts = trial->session->reproducible ? many : few;
    int64_t text[WHOLE], count = 0, read = 0;
    const float *at_once, *in_parts;
    size_t words, others;

    for (uint32_t i = 0; i < PARTS; i++)
        count += parts[i];
    for (int64_t i = 0; i < count; i++)
        text[i] = long_text[i * i % LONG];
    if (!begin(trial, *info, INLAY_ROWS_ALONE) || !run_rows(trial, 0, text, count, &at_once, &words))
        return false;
    for (uint32_t i = 0; i < PARTS; i++) {
        if (!run_rows(trial, 1, text + read, parts[i], &in_parts, &others) || words != others)
            return false;
        read += parts[i];
    }
    return are_alike(trial, at_once, in_parts, words) && (!trial->session->reproducible || have_same_states(trial));
}

/* With option reproducible INLAY_ROWS_LEFT is not a choice: the place of a term in a sum depends on the padding before
 * it, also where these short texts show no difference. */
static uint32_t find_layout(struct rows_trial *trial, const inlay_rows_info *info)
{
    if (!may_have_rows(trial->session, info))
        return INLAY_ROWS_ALONE;
    if (holds_together(trial, info, INLAY_ROWS_RIGHT))
        return INLAY_ROWS_RIGHT;
    return !trial->session->reproducible && holds_together(trial, info, INLAY_ROWS_LEFT) ? INLAY_ROWS_LEFT
                                                                                         : INLAY_ROWS_ALONE;
}

inlay_status inlay_session_rows(inlay_session *session, const inlay_run_options *options, inlay_rows_info *out_info,
                                inlay_diag *diag)
{
    struct rows_trial trial = { .session = session, .options = options };
    inlay_rows_info info = { .struct_size = sizeof info };
    inlay_status status = INLAY_OK;

    if (session->env.state_count == 0)
        return inlay_fail(diag, INLAY_NOT_FOUND,
                          "the model has no known states; option state declares outputs that are inputs of the next "
                          "run, INPUT=OUTPUT");
    status = find_ports(session, &info, diag);
    if (status != INLAY_OK)
        return status;
    sum_bytes(session, &info);
    for (uint32_t i = 0; status == INLAY_OK && i < TRIED; i++)
        status = inlay_context_create(session, &trial.contexts[i], diag);
    if (status == INLAY_OK) {
        info.in_parts = reads_parts(&trial, &info);
        info.layout = find_layout(&trial, &info);
        if (trial.stopped != INLAY_OK)
            status = inlay_fail(diag, trial.stopped, "the runs that find the layout of rows did not complete");
    }
    for (uint32_t i = 0; i < TRIED; i++)
        inlay_context_destroy(trial.contexts[i]);
    if (status != INLAY_OK)
        return status;
    return sized_struct_write(out_info, &info, sizeof info)
               ? INLAY_OK
               : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_rows_info.struct_size is not set");
}
