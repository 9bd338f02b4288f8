#include "plugin/admit.h"
#include "base/among.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "plugin/note_memo.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *plugin_outcome_text(plugin_outcome outcome)
{
    switch (outcome) {
#define OUTCOME_TEXT(name, text)                                                                                       \
    case PLUGIN_##name:                                                                                                \
        return text;
        PLUGIN_OUTCOMES(OUTCOME_TEXT)
#undef OUTCOME_TEXT
    default:
        return "?";
    }
}

inlay_status admit_open(const plugin_search *search, const char *path, const char *dir, struct admission *admission,
                        inlay_diag *diag)
{
    inlay_status status;

    admission->fd = -1;
    admission->outcome = PLUGIN_REFUSED;
    admission->fix[0] = '\0';
    admission->lost = admission->for_one_model = false;
    admission->facts.name = admission->facts.providers = admission->facts.version = "";
    admission->key.text[0] = admission->key.file[0] = '\0';
    admission->verdict = (struct verdict){ .kind = VERDICT_NONE };
    admission->probe = NULL;
    status = trust_open(path, dir, admission->path, &admission->fd, &admission->st, diag);
    if (status == INLAY_OK && search->allow != NULL && search->allow[0] != '\0')
        status = trust_allowed(search->allow, admission->fd, admission->path, diag);
    return status;
}

/* Sets the file's outcome from its verdict. is_new: the probe has just finished; otherwise the verdict is from
 * earlier. */
static inlay_status apply_verdict(const struct verdict *verdict, bool is_new, struct admission *admission,
                                  inlay_diag *diag)
{
    if (verdict->kind == VERDICT_OK)
        return INLAY_OK;
    if (verdict->kind == VERDICT_NONE) { /* the machine is the reason, not the plugin */
        (void)inlay_fail(diag, INLAY_IO_ERROR, "%s", verdict->text);
        diag->error_class = INLAY_CLASS_RETRY;
        return INLAY_IO_ERROR;
    }
    if (verdict->kind != VERDICT_REFUSED) {
        admission->lost = admission->key.own;
        admission->outcome = !is_new                         ? PLUGIN_QUARANTINED
                             : verdict->kind == VERDICT_HUNG ? PLUGIN_HUNG
                                                             : PLUGIN_CRASHED;
        (void)snprintf(admission->fix, sizeof admission->fix,
                       "it is probed again when it changes, %s later, or by 'inlay providers --retry %s'",
                       verdict->kind == VERDICT_HUNG ? "ten minutes" : "a day", admission->path);
    }
    return inlay_fail(diag, INLAY_UNSUPPORTED, "%s", verdict->text);
}

/* Is the file in the folder that is installed with the host? */
static bool is_own(const char *path)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');

    return plugin_default_dir(dir, sizeof dir) != NULL && slash != NULL && (size_t)(slash - path) == strlen(dir) &&
           strncmp(path, dir, strlen(dir)) == 0;
}

bool admit_isolates(const char *isolate, const char *providers)
{
    char name[256];

    if (isolate != NULL && strcmp(isolate, "all") == 0)
        return true;
    while (isolate != NULL && *isolate != '\0') {
        const size_t bytes = strcspn(isolate, ",");

        if (bytes > 0 && bytes < sizeof name) {
            memcpy(name, isolate, bytes);
            name[bytes] = '\0';
            if (is_among(name, providers))
                return true;
        }
        isolate += bytes + (isolate[bytes] == ',');
    }
    return false;
}

/* Joins or starts a probe of the file in a separate process, unless a verdict is known. */
static inlay_status begin_probe(const plugin_search *search, struct admission *admission, inlay_diag *diag)
{
    const bool is_isolated = admit_isolates(search->isolate, admission->facts.providers);
    char helper[PATH_MAX], host[128], build[160];
    struct verdict *verdict = &admission->verdict;
    inlay_diag why = INLAY_DIAG_INIT;
    const inlay_status found = probe_find(helper, host, &why);

    /* A plugin that cannot be opened in isolation may well be loaded without it. */
    (void)snprintf(build, sizeof build, "%s%s", host, is_isolated ? " isolated" : "");
    verdict_key_init(&admission->key, search->verdict_dir, admission->path, &admission->st, admission->facts.build_id,
                     build);
    admission->key.own = is_own(admission->path);
    verdict_find(&admission->key, verdict);
    if (search->probe == PLUGIN_PROBE_NEVER && verdict->kind != VERDICT_CRASHED && verdict->kind != VERDICT_HUNG)
        verdict->kind = VERDICT_OK;
    if (verdict->kind != VERDICT_NONE)
        return INLAY_OK;
    if (found != INLAY_OK) {
        char line[600];

        if (search->probe == PLUGIN_PROBE_ALWAYS)
            return inlay_fail(diag, INLAY_UNSUPPORTED,
                              "%.400s, and option probe is 'always': a file that cannot be probed is not loaded",
                              why.text);
        (void)snprintf(line, sizeof line, "%.400s: a plugin is loaded into this process without a probe", why.text);
        if (search->log != NULL && found != INLAY_UNSUPPORTED) /* then nobody could install it */
            search->log(search->log_user, INLAY_LOG_WARNING, line);
        verdict->kind = VERDICT_OK;
        return INLAY_OK;
    }
    return shared_probe_join(helper, admission->path, search->probe_ms != 0 ? search->probe_ms : PROBE_DEFAULT_MS,
                             is_isolated, &admission->key, &admission->probe, verdict, diag);
}

inlay_status admit_begin(const plugin_search *search, struct admission *admission, inlay_diag *diag)
{
    inlay_status status = note_read_once(admission->fd, &admission->st, &admission->facts, diag);

    if (status == INLAY_INVALID_ARGUMENT && !admission->facts.is_elf)
        admission->outcome = PLUGIN_NOT_ELF;
    if (status == INLAY_OK)
        status = note_fits_host(&admission->facts, diag);
    if (status == INLAY_OK)
        status = begin_probe(search, admission, diag);
    return status;
}

inlay_status admit_finish(struct admission *admission, inlay_diag *diag)
{
    const bool is_new = admission->probe != NULL;

    INLAY_CHECK(admission->fd >= 0);
    if (is_new)
        shared_probe_wait(admission->probe, &admission->key, &admission->verdict);
    return apply_verdict(&admission->verdict, is_new, admission, diag);
}

inlay_status admit_crashes(const char *key_text, const char *file, uint64_t model, struct admission *admission,
                           inlay_diag *diag)
{
    crash_marks marks;

    verdict_crashes(key_text, file, model, &marks);
    if (!marks.this_model && marks.count < CRASH_MARKS)
        return INLAY_OK;
    admission->outcome = PLUGIN_QUARANTINED;
    admission->lost = true;
    admission->for_one_model = marks.count < CRASH_MARKS;
    (void)snprintf(admission->fix, sizeof admission->fix,
                   "it is not loaded for %s until it changes, a day later, or by 'inlay providers --retry %s'",
                   marks.this_model ? "this model" : "any model (it crashed with several)", admission->path);
    return inlay_fail(diag, INLAY_UNSUPPORTED, "%s", marks.text);
}

void admission_close(struct admission *admission)
{
    shared_probe_leave(admission->probe);
    admission->probe = NULL;
    if (admission->fd >= 0)
        (void)close(admission->fd);
    admission->fd = -1;
}
