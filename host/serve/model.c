#include "serve/model.h"
#include "serve/datatype.h"
#include "serve/sequence.h"
#include "serve/text.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ------------------------------------------------------------------ its inputs and outputs */

static inlay_status read_io(struct model *m, inlay_diag *diag)
{
    m->input_count = inlay_session_input_count(m->session);
    m->output_count = inlay_session_output_count(m->session);
    m->inputs = calloc(m->input_count + 1u, sizeof *m->inputs);
    m->outputs = calloc(m->output_count + 1u, sizeof *m->outputs);
    if (m->inputs == NULL || m->outputs == NULL)
        return no_memory(diag, "for the model's inputs");
    for (uint32_t i = 0; i < m->input_count; i++) {
        m->inputs[i].struct_size = sizeof *m->inputs;
        (void)inlay_session_input(m->session, i, &m->inputs[i]);
        if (m->inputs[i].kind != INLAY_KIND_TENSOR || datatype_name(m->inputs[i].dtype) == NULL)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "input '%s' is no tensor of a type that the protocol has",
                              m->inputs[i].name);
    }
    for (uint32_t i = 0; i < m->output_count; i++) {
        m->outputs[i].struct_size = sizeof *m->outputs;
        (void)inlay_session_output(m->session, i, &m->outputs[i]);
    }
    return INLAY_OK;
}

/* The name of a first axis of open size, or NULL. */
static const char *open_axis(const inlay_io_info *io)
{
    if (io->kind != INLAY_KIND_TENSOR || io->rank == INLAY_RANK_UNKNOWN || io->rank == 0 || io->dims[0] != -1 ||
        io->dim_names[0][0] == '\0')
        return NULL;
    return io->dim_names[0];
}

static bool is_joinable(const struct model *m)
{
    const char *axis = m->input_count > 0 ? open_axis(&m->inputs[0]) : NULL;

    for (uint32_t i = 0; axis != NULL && i < m->input_count + m->output_count; i++) {
        const char *other = open_axis(i < m->input_count ? &m->inputs[i] : &m->outputs[i - m->input_count]);
        if (other == NULL || strcmp(other, axis) != 0)
            axis = NULL;
    }
    return axis != NULL && m->output_count > 0;
}

/* ------------------------------------------------------------------ instances */

inlay_status instance_init(const struct model *m, struct instance *i, uint32_t jobs, inlay_diag *diag)
{
    i->job_capacity = jobs;
    i->joined = calloc(m->input_count + 1u, sizeof *i->joined);
    i->joined_bytes = calloc(m->input_count + 1u, sizeof *i->joined_bytes);
    i->cut = calloc(m->output_count + 1u, sizeof *i->cut);
    i->cut_bytes = calloc(m->output_count + 1u, sizeof *i->cut_bytes);
    i->given = calloc(m->input_count + 1u, sizeof *i->given);
    i->outputs = calloc(m->output_count + 1u, sizeof *i->outputs);
    i->jobs = calloc(jobs, sizeof(struct job *));
    if (i->joined == NULL || i->joined_bytes == NULL || i->cut == NULL || i->cut_bytes == NULL || i->given == NULL ||
        i->outputs == NULL || i->jobs == NULL)
        return no_memory(diag, "for an instance");
    return inlay_context_create(m->session, &i->context, diag);
}

void instance_deinit(const struct model *m, struct instance *i)
{
    inlay_context_destroy(i->context);
    for (uint32_t k = 0; i->joined != NULL && k < m->input_count; k++)
        free(i->joined[k]);
    for (uint32_t k = 0; i->cut != NULL && k < m->output_count; k++)
        free(i->cut[k]);
    free(i->joined);
    free(i->joined_bytes);
    free(i->cut);
    free(i->cut_bytes);
    free((void *)i->given);
    free(i->outputs);
    free((void *)i->jobs);
    *i = (struct instance){ .context = NULL };
}

static inlay_status make_instances(struct model *m, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    m->instances = calloc(m->settings.instances, sizeof *m->instances);
    m->stats.batches = calloc(m->settings.max_batch, sizeof *m->stats.batches);
    if (m->instances == NULL || m->stats.batches == NULL)
        return no_memory(diag, "for %u instances", m->settings.instances);
    m->stats.batch_count = m->settings.max_batch;
    for (uint32_t n = m->settings.instances; status == INLAY_OK && n-- > 0;) {
        struct instance *i = &m->instances[n];

        i->next = m->idle;
        m->idle = i;
        status = instance_init(m, i, m->settings.max_batch, diag);
    }
    return status;
}

/* ------------------------------------------------------------------ runs that nobody asked for */

uint32_t model_made_dims(const struct model *m, uint32_t k, int64_t rows, int64_t length, int64_t *out_dims)
{
    const inlay_io_info *io = &m->inputs[k];

    out_dims[0] = 1;
    if (io->rank == INLAY_RANK_UNKNOWN)
        return 1;
    for (uint32_t d = 0; d < io->rank; d++) {
        bool is_padded = m->padding.axis != NULL && d > 0 && d == m->padding.input_axes[k];

        out_dims[d] = io->dims[d] >= 0 ? io->dims[d] : d == 0 && m->joinable ? rows : is_padded ? length : 1;
    }
    return io->rank;
}

inlay_status instance_try(const struct model *m, const struct instance *i, model_input_fn make, const void *user,
                          inlay_diag *diag)
{
    inlay_run_options run = INLAY_RUN_OPTIONS_INIT;
    inlay_status status = INLAY_OK;

    run.cancel = m->settings.stop;
    for (uint32_t k = 0; status == INLAY_OK && k < m->input_count; k++) {
        inlay_value *value = NULL;

        status = make(m, k, user, &value, diag);
        if (status == INLAY_OK && value != NULL)
            status = inlay_context_set_input(i->context, k, value, diag);
        inlay_value_unref(value);
    }
    if (status == INLAY_OK)
        status = inlay_context_run(i->context, &run, diag);
    for (uint32_t k = 0; k < m->input_count; k++)
        (void)inlay_context_set_input(i->context, k, NULL, NULL);
    return status;
}

/* The first axis where requests are joined by it, and the axis that is padded. */
typedef struct warm_size {
    int64_t rows, length;
} warm_size;

/* Zeros of that size. */
static inlay_status warm_input(const struct model *m, uint32_t k, const void *user, inlay_value **out_value,
                               inlay_diag *diag)
{
    const warm_size *size = user;
    const inlay_io_info *io = &m->inputs[k];
    int64_t dims[INLAY_MAX_RANK];
    inlay_str *texts = NULL;
    uint32_t rank;
    uint64_t count;
    inlay_status status;

    *out_value = NULL;
    if (io->optional)
        return INLAY_OK;
    rank = model_made_dims(m, k, size->rows, size->length, dims);
    if (io->dtype != INLAY_STRING)
        return inlay_value_create(io->dtype, rank, dims, out_value, diag);
    if (!infer_count(rank, dims, &count) || (texts = calloc(count + 1, sizeof *texts)) == NULL)
        return no_memory(diag, "to warm up");
    for (uint64_t n = 0; n < count; n++)
        texts[n].data = "";
    status = inlay_value_create_strings(rank, dims, texts, out_value, diag);
    free(texts);
    return status;
}

static inlay_status warm_up(const struct model *m, const struct instance *i, int64_t rows, int64_t length)
{
    const warm_size size = { rows, length };

    return instance_try(m, i, warm_input, &size, NULL);
}

/* Times runs of 1, 2, 4 ... rows, until a row gets no cheaper any more. */
static void measure_batches(struct model *m, const struct instance *i, int64_t length)
{
    enum { TIMES = 3 };
    batch_cost *c = &m->queue.cost;

    for (uint32_t rows = 1; rows <= m->settings.max_batch; rows *= 2) {
        if (warm_up(m, i, rows, length) != INLAY_OK)
            return;
        for (uint32_t k = 0; k < TIMES; k++) {
            uint64_t start = clock_ns();

            if (warm_up(m, i, rows, length) == INLAY_OK)
                batch_cost_add(c, rows, (double)(clock_ns() - start));
        }
        if (c->best * 4 <= rows)
            return;
    }
}

/* The first run at a size plans it; here nobody waits for that. A model that zeros are wrong for runs all the same. */
static void warm_all(struct model *m)
{
    const padding_config *p = &m->settings.padding;
    int64_t length = p->size_count > 0 ? (int64_t)p->sizes[0] : 1;

    for (uint32_t n = 0; n < m->settings.instances; n++) {
        const struct instance *i = &m->instances[n];

        if (warm_up(m, i, 1, length) != INLAY_OK)
            return;
        if (n == 0 && m->settings.max_batch > 1)
            measure_batches(m, i, length);
        if (m->settings.max_batch > 1 && warm_up(m, i, m->settings.max_batch, length) != INLAY_OK)
            return;
        for (uint32_t k = 1; k < p->size_count; k++)
            if (warm_up(m, i, 1, (int64_t)p->sizes[k]) != INLAY_OK)
                return;
    }
}

/* ------------------------------------------------------------------ from file to model */

uint64_t model_file_bytes(const char *path, bool whole_folder)
{
    const char *slash = strrchr(path, '/');
    const struct dirent *entry;
    struct stat st;
    uint64_t bytes = 0;
    char folder[4200];
    DIR *dir;

    if (!whole_folder || slash == NULL)
        return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    dir = opendir(folder);
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
            bytes += (uint64_t)st.st_size;
    if (dir != NULL)
        (void)closedir(dir);
    return bytes;
}

static uint64_t run_bytes(const struct model *m)
{
    inlay_memory_info info = { .struct_size = sizeof info };

    return inlay_session_memory(m->session, &info) == INLAY_OK ? info.used_bytes : 0;
}

inlay_status model_load(const char *name, uint64_t version, const char *path, const model_settings *settings,
                        const inlay_options *options, struct model **out_model, inlay_diag *diag)
{
    struct model *m = calloc(1, sizeof *m);
    inlay_status status = INLAY_OK;

    *out_model = NULL;
    if (m == NULL)
        return no_memory(diag, "for model '%s'", name);
    atomic_init(&m->refs, 1);
    (void)pthread_mutex_init(&m->sequence_lock, NULL);
    m->settings = *settings;
    m->number = version;
    (void)snprintf(m->version, sizeof m->version, "%llu", (unsigned long long)version);
    m->name = strdup(name);
    m->path = strdup(path);
    if (m->name == NULL || m->path == NULL) {
        status = no_memory(diag, "for model '%s'", name);
        goto done;
    }
    INLAY_TRY(inlay_session_create(path, options, &m->session, diag));
    INLAY_TRY(read_io(m, diag));
    INLAY_TRY(sequences_create(m, diag));
    INLAY_TRY(language_open(m, &m->text, diag));
    m->joinable = is_joinable(m);
    if (!m->joinable)
        m->settings.max_batch = 1;
    INLAY_TRY(padding_init(m, diag));
    INLAY_TRY(make_instances(m, diag));
    INLAY_TRY(padding_check(m, &m->instances[0], diag));
    if (m->settings.warmup)
        warm_all(m);
    m->bytes = run_bytes(m);
    m->share_count = shares_read(m->session, m->shares);
    *out_model = m;
    m = NULL;
done:
    model_unref(m);
    return status;
}

struct model *model_ref(struct model *m)
{
    (void)atomic_fetch_add(&m->refs, 1);
    return m;
}

void model_unref(struct model *m)
{
    if (m == NULL || atomic_fetch_sub(&m->refs, 1) != 1)
        return;
    for (uint32_t n = 0; m->instances != NULL && n < m->settings.instances; n++)
        instance_deinit(m, &m->instances[n]);
    padding_deinit(&m->padding);
    language_close(m->text);
    sequences_destroy(m);
    inlay_session_destroy(m->session);
    free(m->instances);
    free(m->stats.batches);
    free(m->inputs);
    free(m->outputs);
    free(m->name);
    free(m->path);
    free(m);
}

/* ------------------------------------------------------------------ requests against the model */

static void format_shape(char *text, size_t bytes, uint32_t rank, const int64_t *dims)
{
    size_t used = (size_t)snprintf(text, bytes, "[");

    for (uint32_t i = 0; i < rank && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%lld", i > 0 ? "," : "", (long long)dims[i]);
    if (used < bytes)
        (void)snprintf(text + used, bytes - used, "]");
}

static inlay_status check_input(const struct model *m, infer_tensor *t, inlay_diag *diag)
{
    const inlay_io_info *io;
    char wanted[200], given[200];
    bool fits;

    t->input = inlay_session_find_input(m->session, t->name);
    if (t->input == INLAY_NONE)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "model '%s' has no input '%s'", m->name, t->name);
    io = &m->inputs[t->input];
    if (io->dtype != t->dtype)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' is %s, the model wants %s", t->name,
                          datatype_name(t->dtype), datatype_name(io->dtype));
    if (io->rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    fits = io->rank == t->rank;
    for (uint32_t d = 0; fits && d < t->rank; d++)
        fits = io->dims[d] < 0 || io->dims[d] == t->dims[d];
    if (fits)
        return INLAY_OK;
    format_shape(wanted, sizeof wanted, io->rank, io->dims);
    format_shape(given, sizeof given, t->rank, t->dims);
    return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "input '%s' has shape %s, the model wants %s%s", t->name, given,
                      wanted, strstr(wanted, "-1") != NULL ? " (-1: any size)" : "");
}

static inlay_status check_outputs(const struct model *m, infer_request *q, inlay_diag *diag)
{
    for (uint32_t i = 0; i < q->output_count; i++) {
        q->outputs[i].output = inlay_session_find_output(m->session, q->outputs[i].name);
        if (q->outputs[i].output == INLAY_NONE)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "model '%s' has no output '%s'", m->name,
                              q->outputs[i].name);
    }
    return INLAY_OK;
}

/* Whether a request has to bring the input. */
static bool is_needed(const struct job *j, uint32_t input)
{
    const struct model *m = j->model;

    return !m->inputs[input].optional && !(m->state_inputs[input] && j->request->sequence[0] != '\0');
}

inlay_status model_check(struct job *j, inlay_diag *diag)
{
    const struct model *m = j->model;
    infer_request *q = j->request;
    uint64_t given = 0;

    for (uint32_t i = 0; i < q->input_count; i++) {
        inlay_status status = check_input(m, &q->inputs[i], diag);

        if (status != INLAY_OK)
            return status;
        given += is_needed(j, q->inputs[i].input);
        j->bytes += q->inputs[i].bytes;
    }
    for (uint32_t k = 0; k < m->input_count; k++)
        given -= is_needed(j, k);
    for (uint32_t k = 0, i; given != 0 && k < m->input_count; k++) {
        for (i = 0; i < q->input_count && q->inputs[i].input != k; i++)
            ;
        if (i == q->input_count && is_needed(j, k))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' is missing", m->inputs[k].name);
    }
    j->rows = m->joinable && q->input_count > 0 ? (uint64_t)q->inputs[0].dims[0] : 1;
    for (uint32_t i = 0; m->joinable && i < q->input_count; i++)
        if ((uint64_t)q->inputs[i].dims[0] != j->rows)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "input '%s' has %lld rows, input '%s' has %llu",
                              q->inputs[i].name, (long long)q->inputs[i].dims[0], q->inputs[0].name,
                              (unsigned long long)j->rows);
    padding_choose(j);
    j->level = q->priority == 0                ? m->settings.priority
               : q->priority > PRIORITY_LEVELS ? PRIORITY_LEVELS
                                               : (uint32_t)q->priority;
    if (check_outputs(m, q, diag) != INLAY_OK)
        return diag->code;
    return sequence_join(j, diag);
}
