#include "session/package.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "config/checks.h"
#include <stdlib.h>
#include <string.h>

/* Prices have errors: a less exact variant is chosen only if it is cheaper by this factor. */
#define GAIN 0.97

struct choice {
    const char *path;
    const inlay_options *options;
    double limit;     /* the largest error; negative: none stated */
    bool is_demanded; /* by option max_error */
    inlay_session *best;
    double ns;
    struct strbuf left_out; /* why variants cannot be run */
    inlay_diag *diag;
};

/* The options of a variant's session. Options max_error, unless it has a table of nodes, and ladder choose variants. */
static inlay_status options_of(const struct choice *choice, const package_variant *variant, inlay_options **out)
{
    inlay_options *copy = NULL;
    inlay_status status;

    *out = NULL;
    INLAY_TRY(options_copy(choice->options, &copy, choice->diag));
    if (options_text(copy, OPTION_error_table)[0] == '\0')
        INLAY_TRY(options_set(copy, "max_error", "0", choice->diag));
    INLAY_TRY(options_set(copy, "ladder", "", choice->diag));
    if (variant->external_dir != NULL)
        INLAY_TRY(options_set(copy, "external_dir", variant->external_dir, choice->diag));
    *out = copy;
    copy = NULL;
done:
    options_destroy(copy);
    return status;
}

/* Opens a session with the variant; *out NULL: it cannot be run, and left_out says why. */
static inlay_status open_variant(struct choice *choice, const package_variant *variant, inlay_session **out)
{
    const session_source source = { .path = variant->file, .fd = -1 };
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    inlay_status status;

    *out = NULL;
    if (variant->file == NULL) {
        strbuf_format(&choice->left_out, "; %s: %s", variant->name, variant->why);
        return INLAY_OK;
    }
    INLAY_TRY(options_of(choice, variant, &options));
    status = session_open(&source, options, out, &why);
    if (status == INLAY_CANCELLED || status == INLAY_OUT_OF_MEMORY) {
        *choice->diag = why; /* not because of the variant */
        goto done;
    }
    if (status != INLAY_OK) {
        strbuf_format(&choice->left_out, "; %s: %s", variant->name, why.text);
        status = INLAY_OK;
        goto done;
    }
    (*out)->loading.variant = arena_string(&(*out)->arena, variant->name);
    (*out)->loading.variant_error = variant->error;
    if ((*out)->loading.variant == NULL) {
        session_close(*out);
        *out = NULL;
        status = no_memory(choice->diag, "for a package");
    }
done:
    options_destroy(options);
    return status;
}

/* Opens a session with the variant, and keeps it if it is better than the best one so far. */
static inlay_status try_variant(struct choice *choice, const package_variant *variant)
{
    inlay_session *session = NULL;
    const inlay_status status = open_variant(choice, variant, &session);
    const double ns = session != NULL ? session->main->parts.cost_ns : 0;

    if (session != NULL &&
        (choice->best == NULL || ns < choice->ns * (variant->error > choice->best->loading.variant_error ? GAIN : 1))) {
        inlay_session *worse = choice->best;

        choice->best = session;
        choice->ns = ns;
        session = worse;
    }
    session_close(session);
    return status;
}

/* Sets the largest error of variants that may be chosen. */
static inlay_status find_limit(struct choice *choice, const model_package *package)
{
    double least = -1;

    for (uint32_t i = 0; i < package->count; i++)
        if (package->variants[i].error >= 0 && (least < 0 || package->variants[i].error < least))
            least = package->variants[i].error;
    (void)option_limit(options_text(choice->options, OPTION_max_error), &choice->limit);
    choice->is_demanded = choice->limit > 0;
    if (choice->is_demanded && (least < 0 || least > choice->limit))
        return inlay_fail(choice->diag, INLAY_INVALID_ARGUMENT, "%.300s: option max_error is %g, and %s", choice->path,
                          choice->limit,
                          least < 0 ? "no variant states its error" : "every variant has a larger error");
    if (!choice->is_demanded)
        choice->limit = least;
    return INLAY_OK;
}

static int by_error(const void *left, const void *right)
{
    const package_variant *a = left, *b = right;

    return (a->error > b->error) - (a->error < b->error);
}

/* "model.pkg: int4 chosen: 2.1 ms expected, error 0.004 <= max_error 0.01", or "model.pkg: by deadline: fp32: 4 ms
 * expected, error 0; int4: ..." */
static inlay_status say_choice(const struct choice *choice)
{
    inlay_session *session = choice->best;
    const bool is_ladder = session->ladder.count > 0;
    struct strbuf text = { 0 };

    strbuf_format(&text, is_ladder ? "%s: by deadline" : "%s", choice->path);
    for (uint32_t i = 0; i < (is_ladder ? session->ladder.count : 1); i++) {
        const inlay_session *variant = is_ladder ? session->ladder.variants[i] : session;

        strbuf_format(&text, is_ladder ? "%s %s: %.3g ms expected" : "%s %s chosen: %.3g ms expected",
                      i > 0 ? ";" : ":", variant->loading.variant, variant->main->parts.cost_ns / 1e6);
        if (variant->loading.variant_error >= 0)
            strbuf_format(&text, ", error %.2g", variant->loading.variant_error);
    }
    if (choice->is_demanded)
        strbuf_format(&text, " <= max_error %g", choice->limit);
    if (choice->left_out.size > 0)
        strbuf_format(&text, " (skipped: %s)", choice->left_out.data + 2);
    session->loading.chosen = text.failed ? NULL : arena_string(&session->arena, text.data);
    strbuf_deinit(&text);
    if (session->loading.chosen == NULL)
        return no_memory(choice->diag, "for a package");
    if (session->env.log != NULL)
        session->env.log(session->env.log_ctx, INLAY_LOG_INFO, session->loading.chosen);
    return INLAY_OK;
}

static bool same_io(const inlay_io_info *a, const inlay_io_info *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(a[i].name, b[i].name) != 0 || a[i].kind != b[i].kind || a[i].dtype != b[i].dtype ||
            a[i].rank != b[i].rank)
            return false;
    return true;
}

/* Adds the session of a variant to the ladder, and takes it over. */
static inlay_status add_variant(struct choice *choice, inlay_session *session)
{
    inlay_session *first = choice->best;
    const struct graph *graph = session->model->main;

    if (first == NULL) {
        choice->best = session;
        session->ladder.variants[session->ladder.count++] = session;
        return INLAY_OK;
    }
    if (graph->input_count != first->model->main->input_count ||
        graph->output_count != first->model->main->output_count ||
        !same_io(session->inputs, first->inputs, graph->input_count) ||
        !same_io(session->outputs, first->outputs, graph->output_count)) {
        const char *name = session->loading.variant;
        const inlay_status status = inlay_fail(choice->diag, INLAY_UNSUPPORTED,
                                               "%.200s: option ladder: variants %.60s and %.60s have other inputs or "
                                               "outputs",
                                               choice->path, first->loading.variant, name);

        session_close(session);
        return status;
    }
    first->ladder.variants[first->ladder.count++] = session;
    return INLAY_OK;
}

/* Is the variant one of option ladder? */
static bool is_listed(const char *list, const char *name)
{
    const size_t bytes = strlen(name);

    if (strcmp(list, "all") == 0)
        return true;
    for (const char *at = list; *at != '\0'; at += strcspn(at, ", "), at += strspn(at, ", "))
        if (strcspn(at, ", ") == bytes && strncmp(at, name, bytes) == 0)
            return true;
    return false;
}

/* The names of option ladder: each is a variant that states an error, which max_error permits. */
static inlay_status check_names(const struct choice *choice, const model_package *package, const char *list)
{
    const package_variant *variant;
    inlay_status status = INLAY_OK;
    char name[64];

    for (const char *at = list + strspn(list, ", "); strcmp(list, "all") != 0 && *at != '\0';
         at += strcspn(at, ", "), at += strspn(at, ", ")) {
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ", "), at);
        INLAY_TRY(package_find(package, choice->path, name, &variant, choice->diag));
        if (variant->error < 0 || (choice->is_demanded && variant->error > choice->limit))
            return inlay_fail(choice->diag, INLAY_INVALID_ARGUMENT, "%.200s: option ladder: variant %.60s %s",
                              choice->path, name,
                              variant->error < 0 ? "states no error" : "has a larger error than option max_error");
    }
done:
    return status;
}

/* Option ladder: one session for each of its variants. */
static inlay_status open_ladder(struct choice *choice, const model_package *package, const char *list)
{
    const char *with = options_list(choice->options, OPTION_memory_limit, 0) != NULL ? "memory_limit"
                       : options_int(choice->options, OPTION_memory_budget) != 0     ? "memory_budget"
                       : options_on(choice->options, OPTION_watchdog)                ? "watchdog"
                                                                                     : NULL;
    inlay_session *session;
    inlay_status status;

    if (with != NULL) /* they would count each variant alone */
        return inlay_fail(choice->diag, INLAY_INVALID_ARGUMENT, "option ladder cannot be combined with %s", with);
    INLAY_TRY(check_names(choice, package, list));
    for (uint32_t i = 0; i < package->count; i++) {
        const package_variant *variant = &package->variants[i];

        if (!is_listed(list, variant->name) || variant->error < 0 ||
            (choice->is_demanded && variant->error > choice->limit))
            continue;
        INLAY_TRY(open_variant(choice, variant, &session));
        if (session == NULL && strcmp(list, "all") == 0)
            continue;
        if (session == NULL) {
            status = inlay_fail(choice->diag, INLAY_UNSUPPORTED, "%.200s: option ladder%.400s", choice->path,
                                choice->left_out.data);
            goto done;
        }
        if (choice->best == NULL)
            session->ladder.variants = calloc(package->count, sizeof(inlay_session *));
        if (choice->best == NULL && session->ladder.variants == NULL) {
            session_close(session);
            status = no_memory(choice->diag, "for a package");
            goto done;
        }
        INLAY_TRY(add_variant(choice, session));
    }
done:
    return status;
}

inlay_status package_session(const char *path, const inlay_options *options, inlay_session **out_session,
                             inlay_diag *diag)
{
    const char *ladder = options_text(options, OPTION_ladder);
    inlay_diag own = INLAY_DIAG_INIT;
    struct choice choice = { .path = path, .options = options, .diag = diag != NULL ? diag : &own };
    model_package package;
    inlay_status status;

    *out_session = NULL;
    INLAY_TRY(package_read(path, &package, choice.diag));
    INLAY_TRY(find_limit(&choice, &package));
    qsort(package.variants, package.count, sizeof *package.variants, by_error); /* a less exact one has to be cheaper */
    if (ladder[0] != '\0')
        INLAY_TRY(open_ladder(&choice, &package, ladder));
    for (uint32_t i = 0; ladder[0] == '\0' && i < package.count; i++) {
        const package_variant *variant = &package.variants[i];

        if (choice.limit < 0 || (variant->error >= 0 && variant->error <= choice.limit))
            INLAY_TRY(try_variant(&choice, variant));
    }
    if (choice.best == NULL) {
        status = inlay_fail(choice.diag, INLAY_UNSUPPORTED, "%.300s: no variant can be run%.600s", path,
                            choice.left_out.data != NULL ? choice.left_out.data : "");
        goto done;
    }
    INLAY_TRY(say_choice(&choice));
    *out_session = choice.best;
    choice.best = NULL;
done:
    session_close(choice.best);
    strbuf_deinit(&choice.left_out);
    package_deinit(&package);
    return status;
}
