/* api/session_api.c - inlay.h: sessions, contexts, runs. Thin: checks what the caller passed and calls the stages. */
#include "api/context.h"
#include "base/known.h"
#include "explain/explain.h"
#include "profile/profile.h"
#include <stdlib.h>
#include <string.h>

const char *inlay_version(void)
{
    return INLAY_VERSION;
}

inlay_status inlay_session_create(const char *path, const inlay_options *options, inlay_session **out_session,
                                  inlay_diag *diag)
{
    session_source source = { .path = path, .fd = -1 };

    return session_open(&source, options, out_session, diag);
}

inlay_status inlay_session_create_from_bytes(const void *data, uint64_t bytes, const inlay_options *options,
                                             inlay_session **out_session, inlay_diag *diag)
{
    session_source source = { .data = data != NULL ? data : "", .bytes = data != NULL ? bytes : 0, .fd = -1 };

    return session_open(&source, options, out_session, diag);
}

inlay_status inlay_session_create_from_fd(int fd, const inlay_options *options, inlay_session **out_session,
                                          inlay_diag *diag)
{
    session_source source = { .fd = fd };

    return session_open(&source, options, out_session, diag);
}

/* ------------------------------------------------------------------ what a session says of itself */

uint32_t inlay_session_input_count(const inlay_session *session)
{
    return session->model->main->input_count;
}

uint32_t inlay_session_output_count(const inlay_session *session)
{
    return session->model->main->output_count;
}

static inlay_status copy_info(const inlay_io_info *list, uint32_t count, uint32_t index, inlay_io_info *out_info)
{
    if (index >= count)
        return INLAY_NOT_FOUND;
    return known_give(out_info, &list[index], sizeof *list) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
}

inlay_status inlay_session_input(const inlay_session *session, uint32_t index, inlay_io_info *out_info)
{
    return copy_info(session->inputs, inlay_session_input_count(session), index, out_info);
}

inlay_status inlay_session_output(const inlay_session *session, uint32_t index, inlay_io_info *out_info)
{
    return copy_info(session->outputs, inlay_session_output_count(session), index, out_info);
}

static uint32_t find_io(const inlay_io_info *list, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return i;
    return INLAY_NONE;
}

uint32_t inlay_session_find_input(const inlay_session *session, const char *name)
{
    return find_io(session->inputs, inlay_session_input_count(session), name);
}

uint32_t inlay_session_find_output(const inlay_session *session, const char *name)
{
    return find_io(session->outputs, inlay_session_output_count(session), name);
}

inlay_status inlay_session_explain(const inlay_session *session, const char *format, inlay_write_fn write, void *user,
                                   inlay_diag *diag)
{
    inlay_explain_options options = { .struct_size = sizeof options, .format = format };
    inlay_status status = session_here(session, diag);

    return status != INLAY_OK ? status : explain_session(session, &options, NULL, NULL, write, user, diag);
}

inlay_status inlay_session_explain_ex(const inlay_session *session, const inlay_explain_options *options,
                                      inlay_write_fn write, void *user, inlay_diag *diag)
{
    inlay_explain_options complete;

    if (options->struct_size < sizeof options->struct_size)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_explain_options.struct_size is not set");
    known_take(&complete, sizeof complete, options, options->struct_size);
    if (session_here(session, diag) != INLAY_OK)
        return INLAY_UNSUPPORTED;
    if (complete.measured != NULL && complete.measured->session != session)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the measured context belongs to another session");
    return explain_session(session, &complete, complete.measured == NULL ? NULL : complete.measured->timings,
                           complete.measured == NULL ? NULL : complete.measured->runner, write, user, diag);
}

/* ------------------------------------------------------------------ memory */

inlay_status inlay_session_memory(const inlay_session *session, inlay_memory_info *out_info)
{
    inlay_memory_info info;

    run_memory_look(session->memory, &info);
    return known_give(out_info, &info, sizeof info) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
}

inlay_status inlay_session_value_create(inlay_session *session, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                        inlay_value **out_value, inlay_diag *diag)
{
    return value_create_from(session->memory, dtype, rank, dims, false, out_value, diag);
}

/* ------------------------------------------------------------------ contexts */

/* An input that is an initializer too has a default (IR 4). It is borrowed from the file where the file aligned it. */
static inlay_status make_default(const graph_value *v, inlay_value **out_value, inlay_diag *diag)
{
    const inlay_tensor_view *t = v->default_value;
    inlay_status status;

    if (t == NULL)
        return INLAY_OK;
    if ((uintptr_t)t->data % 16 == 0)
        return inlay_value_borrow(t->dtype, t->rank, t->dims, (void *)(uintptr_t)t->data, t->bytes, out_value, diag);
    status = value_create(t->dtype, t->rank, t->dims, false, out_value, diag);
    if (status == INLAY_OK && t->bytes > 0)
        memcpy(inlay_value_data(*out_value), t->data, (size_t)t->bytes);
    return status;
}

inlay_status inlay_context_create(inlay_session *session, inlay_context **out_context, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    inlay_context *c = calloc(1, sizeof *c);
    const graph *g = session->model->main;

    *out_context = NULL;
    if (c == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a run context");
    status = session_here(session, diag);
    if (status != INLAY_OK) {
        free(c);
        return status;
    }
    if (run_shared_init(&c->shared, session->env.max_threads, session->env.max_run_bytes, session->memory) !=
        INLAY_OK) {
        free(c);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a run context");
    }
    c->session = session;
    c->inputs = calloc((size_t)g->input_count + 1, sizeof(inlay_value *));
    c->in = calloc((size_t)g->input_count + 1, sizeof *c->in);
    c->wanted = calloc((size_t)g->output_count + 1, sizeof(inlay_value *));
    c->ready = calloc((size_t)g->input_count + g->output_count + 1, sizeof *c->ready);
    c->defaults = calloc((size_t)g->input_count + 1, sizeof(inlay_value *));
    session_use_begin(session, &c->use);
    if (c->inputs == NULL || c->in == NULL || c->wanted == NULL || c->ready == NULL || c->defaults == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a run context");
        goto done;
    }
    for (uint32_t i = 0; i < g->input_count; i++)
        INLAY_TRY(make_default(&g->values[g->inputs[i]], &c->defaults[i], diag));
    INLAY_TRY(runner_create(session->main, &c->shared, &c->runner, diag));
    *out_context = c;
    c = NULL;
done:
    inlay_context_destroy(c);
    return status;
}

/* A device that hangs may still read and write what a context holds, so that and the session stay as they are. So they
 * do in a child of fork() that cannot use them. */
static void leave(inlay_context *c)
{
    static inlay_context *left;

    c->session->abandoned = true;
    c->next = __atomic_load_n(&left, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&left, &c->next, c, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

void inlay_context_destroy(inlay_context *c)
{
    if (c == NULL)
        return;
    if (session_here(c->session, NULL) != INLAY_OK) {
        leave(c);
        return;
    }
    context_end_async(c);
    if (c->shared.abandoned) {
        leave(c);
        return;
    }
    runner_destroy(c->runner);
    run_states_destroy(c->states);
    timings_destroy(c->timings);
    profile_destroy(c->profile);
    for (uint32_t i = 0; c->inputs != NULL && i < inlay_session_input_count(c->session); i++)
        inlay_value_unref(c->inputs[i]);
    for (uint32_t i = 0; c->defaults != NULL && i < inlay_session_input_count(c->session); i++)
        inlay_value_unref(c->defaults[i]);
    for (uint32_t i = 0; c->wanted != NULL && i < inlay_session_output_count(c->session); i++)
        inlay_value_unref(c->wanted[i]);
    run_shared_deinit(&c->shared);
    session_use_end(c->session, &c->use);
    free(c->inputs);
    free(c->in);
    free(c->wanted);
    free(c->ready);
    free(c->defaults);
    free(c);
}

/* "[N,3,224,224]" of what the model declares. */
static void describe_wanted(const inlay_io_info *info, char *text, size_t bytes)
{
    size_t at = (size_t)snprintf(text, bytes, "%s[", inlay_dtype_name(info->dtype));

    for (uint32_t d = 0; info->rank != INLAY_RANK_UNKNOWN && d < info->rank && at < bytes; d++) {
        const char *name = info->dim_names[d][0] != '\0' ? info->dim_names[d] : "?";
        if (info->dims[d] >= 0)
            at += (size_t)snprintf(text + at, bytes - at, "%s%lld", d > 0 ? "," : "", (long long)info->dims[d]);
        else
            at += (size_t)snprintf(text + at, bytes - at, "%s%s", d > 0 ? "," : "", name);
    }
    if (at < bytes)
        (void)snprintf(text + at, bytes - at, info->rank == INLAY_RANK_UNKNOWN ? "...]" : "]");
}

/* Does a tensor fit what the model declares? */
static bool fits(const inlay_io_info *info, const inlay_value *v)
{
    if (info->dtype != INLAY_UNDEFINED && info->dtype != v->dtype)
        return false;
    if (info->kind != v->kind)
        return info->kind == INLAY_KIND_OPTIONAL; /* a bare value stands for an optional that holds it */
    if (v->kind != INLAY_KIND_TENSOR)
        return true;
    if (info->rank == INLAY_RANK_UNKNOWN)
        return true;
    if (info->rank != v->rank)
        return false;
    for (uint32_t d = 0; d < v->rank; d++)
        if (info->dims[d] >= 0 && info->dims[d] != v->dims[d])
            return false;
    return true;
}

static inlay_status misfit(const inlay_io_info *info, const inlay_value *v, const char *what, inlay_diag *diag)
{
    rt_value view = rt_from_value((inlay_value *)(uintptr_t)v);
    inlay_status code = INLAY_SHAPE_MISMATCH;
    char got[128], want[160];

    describe_wanted(info, want, sizeof want);
    (void)inlay_fail(diag, code, "%s '%s' is %s; the model wants %s%s", what, info->name, rt_describe(&view, got),
                     info->kind == INLAY_KIND_SEQUENCE ? "a sequence of " : "", want);
    if (diag != NULL)
        (void)snprintf(diag->tensor, sizeof diag->tensor, "%s", info->name);
    return code;
}

inlay_status context_input_fits(const inlay_context *context, uint32_t index, const inlay_value *value,
                                inlay_diag *diag)
{
    const inlay_io_info *info = &context->session->inputs[index];

    return fits(info, value) ? INLAY_OK : misfit(info, value, "input", diag);
}

/* A value on a device is of use to sessions that have the same device open. */
static inlay_status check_device(const inlay_session *s, const inlay_value *v, inlay_diag *diag)
{
    const uint32_t domain = v != NULL && v->kind == INLAY_KIND_TENSOR ? v->buffer.domain : INLAY_DOMAIN_HOST;

    for (uint32_t i = 0; i < s->env.provider_count; i++)
        if (domain != INLAY_DOMAIN_HOST && domain - s->providers[i].first_domain < s->providers[i].table->domain_count)
            return INLAY_OK;
    return domain == INLAY_DOMAIN_HOST ? INLAY_OK
                                       : inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                                                    "the value lies on a device (%s) that the session does not have "
                                                    "open: make it by this session",
                                                    inlay_value_device(v));
}

inlay_status inlay_context_set_input(inlay_context *context, uint32_t index, inlay_value *value, inlay_diag *diag)
{
    inlay_session *s = context->session;

    if (index >= inlay_session_input_count(s))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input %u of a model with %u inputs", index,
                          inlay_session_input_count(s));
    if (value != NULL && !fits(&s->inputs[index], value))
        return misfit(&s->inputs[index], value, "input", diag);
    if (check_device(s, value, diag) != INLAY_OK)
        return INLAY_INVALID_ARGUMENT;
    inlay_value_ref(value);
    inlay_value_unref(context->inputs[index]);
    context->inputs[index] = value;
    return INLAY_OK;
}

inlay_status inlay_context_set_output(inlay_context *context, uint32_t index, inlay_value *value, inlay_diag *diag)
{
    inlay_session *s = context->session;

    if (index >= inlay_session_output_count(s))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "output %u of a model with %u outputs", index,
                          inlay_session_output_count(s));
    if (value != NULL && (value->kind != INLAY_KIND_TENSOR || value->dtype == INLAY_STRING ||
                          (s->outputs[index].dtype != INLAY_UNDEFINED && s->outputs[index].dtype != value->dtype)))
        return misfit(&s->outputs[index], value, "output", diag);
    if (check_device(s, value, diag) != INLAY_OK)
        return INLAY_INVALID_ARGUMENT;
    inlay_value_ref(value);
    inlay_value_unref(context->wanted[index]);
    context->wanted[index] = value;
    context->runner->wanted[index] = value;
    return INLAY_OK;
}

inlay_status inlay_plugin_register(inlay_status (*open)(const struct inlay_host *host,
                                                        const struct inlay_plugin **out_plugin, inlay_diag *diag),
                                   inlay_diag *diag)
{
    return plugin_register(open, diag);
}

/* ------------------------------------------------------------------ running */

static inlay_status gather_inputs(inlay_context *c, inlay_diag *diag)
{
    const graph *g = c->session->model->main;

    for (uint32_t i = 0; i < g->input_count; i++) {
        const graph_value *v = &g->values[g->inputs[i]];
        inlay_value *bound_value = c->inputs[i] != NULL ? c->inputs[i] : c->defaults[i];

        if (bound_value != NULL) {
            c->in[i] = rt_from_value(bound_value);
            /* The caller's memory may change after the run, so no result may be a reference to it. */
            if (c->in[i].kind == INLAY_KIND_TENSOR)
                c->in[i].owner = NULL;
            /* An empty tensor over no memory at all is there nonetheless. */
            if (c->in[i].kind == INLAY_KIND_TENSOR && c->in[i].buffer.handle == 0)
                c->in[i].buffer.handle = (uintptr_t)bound_value;
            context_import_input(c, g->inputs[i], bound_value, &c->in[i]);
        } else if (v->info.kind == INLAY_VALUE_OPTIONAL ||
                   (c->states != NULL && run_states_of_input(&c->session->env, i) != INLAY_NONE)) {
            c->in[i] = (rt_value){ 0 };
        } else {
            (void)inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' is not bound; see inlay_context_set_input",
                             v->info.name.data);
            if (diag != NULL)
                (void)snprintf(diag->tensor, sizeof diag->tensor, "%s", v->info.name.data);
            return INLAY_INVALID_ARGUMENT;
        }
    }
    return INLAY_OK;
}

static uint64_t deadline_after(uint64_t timeout_ns)
{
    if (timeout_ns == 0)
        return 0;
    if (__builtin_add_overflow(clock_ns(), timeout_ns, &timeout_ns))
        return UINT64_MAX;
    return timeout_ns;
}

inlay_status inlay_context_record(inlay_context *context, uint32_t *out_count, inlay_diag *diag)
{
    uint32_t count = 0;
    inlay_status status;

    if (out_count != NULL)
        *out_count = 0;
    if (context->timings == NULL || timings_runs(context->timings) == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "no run of this context was measured; see inlay_context_measure");
    status = record_runs(context->session, context->runner, context->timings, &count, diag);
    if (status == INLAY_OK && out_count != NULL)
        *out_count = count;
    return status;
}

inlay_status inlay_context_measure(inlay_context *context, uint32_t on, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    timings_destroy(context->timings);
    profile_destroy(context->profile);
    context->timings = NULL;
    context->profile = NULL;
    context->shared.hook = NULL;
    context->shared.run.spans = NULL;
    if (on != 0)
        status = timings_create(context->session->main, &context->timings, diag);
    if (context->timings != NULL)
        context->shared.hook = timings_hook(context->timings);
    return status;
}

inlay_status inlay_context_profile(inlay_context *context, uint32_t on, uint32_t max_events, inlay_diag *diag)
{
    inlay_status status = inlay_context_measure(context, 0, diag);

    if (status == INLAY_OK && on != 0)
        status = profile_create(context->session, max_events == 0 ? 262144 : max_events, &context->profile, diag);
    if (context->profile != NULL) {
        context->shared.hook = profile_hook(context->profile);
        context->shared.run.spans = profile_spans(context->profile);
    }
    return status;
}

inlay_status inlay_context_profile_write(const inlay_context *context, const char *format, double peak_flops_per_s,
                                         double peak_bytes_per_s, inlay_write_fn write, void *user, inlay_diag *diag)
{
    explain_sink sink = { .write = write, .user = user };

    if (context->profile == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the context is not profiled; call inlay_context_profile() first");
    return profile_write(context->profile, format, peak_flops_per_s, peak_bytes_per_s, &sink, diag);
}

inlay_status inlay_context_profile_peaks(inlay_context *context, const inlay_peaks *peaks, inlay_diag *diag)
{
    inlay_peaks known = { 0 };

    if (context->profile == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the context is not profiled; call inlay_context_profile() first");
    known_take(&known, sizeof known, peaks, peaks->struct_size);
    profile_peaks(context->profile, known.integer_ops_per_s, known.half_flops_per_s);
    return INLAY_OK;
}

static inlay_status run_watched(inlay_context *c, inlay_diag *diag)
{
    uint64_t begin;
    inlay_status status;

    if (c->shared.hook == NULL)
        return runner_run(c->runner, c->in, diag);
    if (c->profile != NULL)
        profile_begin(c->profile);
    begin = clock_ns();
    status = runner_run(c->runner, c->in, diag);
    if (c->profile != NULL)
        profile_end(c->profile, clock_ns() - begin, status == INLAY_OK);
    else
        timings_end_run(c->timings, clock_ns() - begin, status == INLAY_OK);
    return status;
}

/* A run that reads the states of the context, and leaves them for the next. */
static inlay_status run_kept(inlay_context *c, inlay_diag *diag)
{
    bool again;
    inlay_status status;

    do {
        status = gather_inputs(c, diag);
        if (status == INLAY_OK)
            status = run_states_bind(c->states, c->runner, c->in, diag);
        if (status == INLAY_OK)
            status = run_watched(c, diag);
        status = run_states_take(c->states, c->runner, status, &again, diag);
    } while (again);
    return status;
}

/* INLAY_RUN_OUTPUTS_BOUND: every output that was to go somewhere went there. */
static inlay_status check_outputs(const inlay_context *c, inlay_diag *diag)
{
    for (uint32_t k = 0; k < inlay_session_output_count(c->session); k++) {
        const inlay_value *want = c->wanted[k], *made = c->runner->outputs[k];

        if (want == NULL || made == want)
            continue;
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "output %u ('%s') takes %llu bytes and does not fit the value of "
                          "%llu bytes that it was bound to",
                          k, c->session->outputs[k].name, (unsigned long long)(made != NULL ? made->buffer.bytes : 0),
                          (unsigned long long)want->capacity);
    }
    return INLAY_OK;
}

static inlay_status start_run(inlay_context *context, const inlay_run_options *options, inlay_diag *diag);

inlay_status inlay_context_run(inlay_context *context, const inlay_run_options *options, inlay_diag *diag)
{
    inlay_status status = session_here(context->session, diag);

    if (status != INLAY_OK)
        return status;
    context_find_ready(context);
    status = context_run_ready(context, options, diag);
    for (uint32_t k = 0; status == INLAY_OK && k < inlay_session_output_count(context->session); k++)
        if (context->wanted[k] != NULL)
            context->wanted[k]->ready = (inlay_fence){ 0 };
    return status;
}

inlay_status context_run_ready(inlay_context *context, const inlay_run_options *options, inlay_diag *diag)
{
    bool must_fit = options != NULL && INLAY_HAS(options, flags) && (options->flags & INLAY_RUN_OUTPUTS_BOUND) != 0;
    inlay_status status;

    if (options != NULL && INLAY_HAS(options, flags) && (options->flags & 0xffffu & ~INLAY_RUN_OUTPUTS_BOUND) != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "inlay_run_options.flags has 0x%x, which this library does not "
                          "know",
                          options->flags);
    __atomic_store_n(&context->use.running, 1, __ATOMIC_RELAXED);
    status = start_run(context, options, diag);
    __atomic_store_n(&context->use.running, 0, __ATOMIC_RELEASE);
    return status == INLAY_OK && must_fit ? check_outputs(context, diag) : status;
}

static inlay_status start_run(inlay_context *context, const inlay_run_options *options, inlay_diag *diag)
{
    static const uint32_t never;
    run_shared *shared = &context->shared;
    inlay_status status = gather_inputs(context, diag);

    if (shared->abandoned && !context->session->env.without_failed)
        return inlay_fail(diag, INLAY_DEVICE_LOST,
                          "a device hangs that has work of this context; create a new session");
    shared->unwinding = false;
    shared->run.cancel = &never;
    shared->run.deadline_ns = 0;
    shared->run.max_threads = context->session->env.max_threads;
    if (status == INLAY_OK && options != NULL) {
        if (options->struct_size >= offsetof(inlay_run_options, cancel) + sizeof options->cancel &&
            options->cancel != NULL)
            shared->run.cancel = options->cancel;
        if (INLAY_HAS(options, timeout_ns))
            shared->run.deadline_ns = deadline_after(options->timeout_ns);
        if (INLAY_HAS(options, max_threads) && options->max_threads > 0 &&
            options->max_threads < shared->run.max_threads)
            shared->run.max_threads = options->max_threads;
    }
    shared->watched = shared->run.cancel != &never || shared->run.deadline_ns != 0;
    shared->run.watched = shared->watched;
    if (shared->strings.blocks != NULL)
        arena_reset(&shared->strings);
    if (status == INLAY_OK && shared->watched)
        status = run_poll(&shared->run) == INLAY_OK
                     ? INLAY_OK
                     : inlay_fail(diag, run_poll(&shared->run), "the run was cancelled before it began");
    if (status != INLAY_OK) {
        for (uint32_t k = 0; k < inlay_session_output_count(context->session); k++) {
            inlay_value_unref(context->runner->outputs[k]);
            context->runner->outputs[k] = NULL;
        }
        return status;
    }
    return context->states != NULL ? run_kept(context, diag) : run_watched(context, diag);
}

inlay_value *inlay_context_output(inlay_context *context, uint32_t index)
{
    if (context->shared.unwinding || index >= inlay_session_output_count(context->session))
        return NULL;
    return context->runner->outputs[index];
}

inlay_status inlay_context_plan(const inlay_context *context, inlay_plan_info *out_info)
{
    const bound *b = context->runner->now;
    inlay_plan_info info = { .struct_size = sizeof info };
    const graph *g = context->session->model->main;

    if (b == NULL)
        return INLAY_NOT_FOUND;
    for (uint32_t d = 0; d < b->plan->domain_count; d++)
        info.slab_bytes += b->plan->slab_bytes[d];
    info.lower_bound_bytes = b->plan->lower_bound_bytes;
    for (uint32_t v = 0; v < g->value_count; v++)
        if ((g->values[v].info.flags & INLAY_VALUE_CONSTANT) != 0)
            info.constant_bytes += g->values[v].info.data_bytes;
    info.step_count = b->plan->step_count;
    info.dynamic_step_count = b->plan->dynamic_count;
    if (INLAY_HAS(out_info, predicted_ns))
        info.predicted_ns = predict_run(context->runner);
    return known_give(out_info, &info, sizeof info) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
}
