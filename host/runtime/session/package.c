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
    const package_variant *variant; /* of best */
    double ns;
    struct strbuf left_out; /* why variants cannot be run */
    inlay_diag *diag;
};

/* The options of a variant's session: option max_error chooses the variant, unless it has a table of nodes. */
static inlay_status options_of(const struct choice *choice, const package_variant *variant, inlay_options **out)
{
    inlay_setting item = { .struct_size = sizeof item };
    const inlay_options *given = choice->options;
    inlay_options *copy = NULL;
    inlay_status status;

    *out = NULL;
    INLAY_TRY(options_create(&copy, choice->diag));
    for (uint32_t i = 0; given != NULL && options_setting(given, i, &item) == INLAY_OK; i++)
        if (item.source != INLAY_SOURCE_DEFAULT && item.text[0] != '\0' &&
            (strcmp(item.name, "max_error") != 0 || options_text(given, OPTION_error_table)[0] != '\0'))
            INLAY_TRY(options_set_item(copy, item.name, item.text, choice->diag));
    if (variant->external_dir != NULL)
        INLAY_TRY(options_set(copy, "external_dir", variant->external_dir, choice->diag));
    if (given != NULL) {
        options_set_log(copy, given->log, given->log_user);
        options_set_progress(copy, given->progress, given->progress_user);
        copy->allocator = given->allocator;
    }
    *out = copy;
    copy = NULL;
done:
    options_destroy(copy);
    return status;
}

/* Opens a session with the variant, and keeps it if it is better than the best one so far. */
static inlay_status try_variant(struct choice *choice, const package_variant *variant)
{
    const session_source source = { .path = variant->file, .fd = -1 };
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    inlay_session *session = NULL;
    double ns;
    inlay_status status;

    if (variant->file == NULL) {
        strbuf_format(&choice->left_out, "; %s: %s", variant->name, variant->why);
        return INLAY_OK;
    }
    INLAY_TRY(options_of(choice, variant, &options));
    status = session_open(&source, options, &session, &why);
    if (status == INLAY_CANCELLED || status == INLAY_OUT_OF_MEMORY) {
        *choice->diag = why; /* not because of the variant */
        goto done;
    }
    if (status != INLAY_OK) {
        strbuf_format(&choice->left_out, "; %s: %s", variant->name, why.text);
        status = INLAY_OK;
        goto done;
    }
    ns = session->main->parts.cost_ns;
    if (choice->best == NULL || ns < choice->ns * (variant->error > choice->variant->error ? GAIN : 1)) {
        inlay_session *worse = choice->best;

        choice->best = session;
        choice->variant = variant;
        choice->ns = ns;
        session = worse;
    }
done:
    session_close(session);
    options_destroy(options);
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

/* "model.pkg: int4 chosen: 2.1 ms expected, error 0.004 <= max_error 0.01" */
static inlay_status say_choice(const struct choice *choice)
{
    struct strbuf text = { 0 };
    inlay_session *session = choice->best;

    strbuf_format(&text, "%s: %s chosen: %.3g ms expected", choice->path, choice->variant->name, choice->ns / 1e6);
    if (choice->variant->error >= 0)
        strbuf_format(&text, ", error %.2g", choice->variant->error);
    if (choice->is_demanded)
        strbuf_format(&text, " <= max_error %g", choice->limit);
    if (choice->left_out.size > 0)
        strbuf_format(&text, " (left out: %s)", choice->left_out.data + 2);
    session->loading.chosen = text.failed ? NULL : arena_string(&session->arena, text.data);
    strbuf_deinit(&text);
    if (session->loading.chosen == NULL)
        return no_memory(choice->diag, "for a package");
    if (session->env.log != NULL)
        session->env.log(session->env.log_ctx, INLAY_LOG_INFO, session->loading.chosen);
    return INLAY_OK;
}

inlay_status package_session(const char *path, const inlay_options *options, inlay_session **out_session,
                             inlay_diag *diag)
{
    struct choice choice = { .path = path, .options = options, .diag = diag };
    model_package package;
    inlay_status status;

    *out_session = NULL;
    INLAY_TRY(package_read(path, &package, diag));
    INLAY_TRY(find_limit(&choice, &package));
    qsort(package.variants, package.count, sizeof *package.variants, by_error); /* a less exact one has to be cheaper */
    for (uint32_t i = 0; i < package.count; i++) {
        const package_variant *variant = &package.variants[i];

        if (choice.limit < 0 || (variant->error >= 0 && variant->error <= choice.limit))
            INLAY_TRY(try_variant(&choice, variant));
    }
    if (choice.best == NULL) {
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "%.300s: no variant can be run%.600s", path,
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
