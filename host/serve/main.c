/* inlay-serve: the Open Inference Protocol over HTTP. Starts, waits for SIGTERM, drains, exits. */
#include "base/output.h"
#include "base/cpus.h"
#include "serve/network/front.h"
#include "serve/process/listen.h"
#include "serve/base/log.h"
#include "serve/base/run_budget.h"
#include "serve/repository/loader.h"
#include "serve/protocol/protocol.h"
#include "serve/repository/ready.h"
#include "serve/repository/repository.h"
#include "serve/request/shared_memory.h"
#include "serve/schedule/sched.h"
#include "serve/base/server.h"
#include "serve/exchange/prepare.h"
#include "serve/exchange/watch.h"
#include "serve/process/supervise.h"
#include "serve/network/tls.h"
#include "serve/schedule/otlp.h"
#include "serve/schedule/trace.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Raises the limit of open files to the hard limit, at most 65536: each connection needs one. */
static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

typedef struct program_state {
    struct server server;
    struct settings settings;
    struct run_budget budget;
    struct front *front;
    pthread_t load_thread;
    bool loading;       /* load_thread has to be joined */
    atomic_bool loaded; /* load_thread has ended */
    atomic_bool failed; /* the models could not be loaded, or listening failed afterwards */
    uint64_t leave_ns;  /* time at which loads in progress are abandoned */
} program_state;

/* Reads a PEM file as text. */
static inlay_status read_pem(const char *setting, const char *path, char **out_text, inlay_diag *diag)
{
    enum { MAX_BYTES = 1 << 20 };
    FILE *file;
    size_t bytes;
    inlay_status status = settings_open(setting, path, &file, diag);

    if (status != INLAY_OK)
        return status;
    *out_text = calloc(1, MAX_BYTES + 1);
    bytes = *out_text != NULL ? fread(*out_text, 1, MAX_BYTES, file) : 0;
    (void)fclose(file);
    return bytes > 0 ? INLAY_OK
                     : inlay_fail(diag, INLAY_IO_ERROR, "%s: %s is empty, or memory is exhausted", setting, path);
}

/* Reads the certificates into server->tls, which is created if necessary. */
static inlay_status load_tls(struct server *server, inlay_diag *diag)
{
    static const int files[3] = { SET_tls_cert, SET_tls_key, SET_tls_client_ca };
    static const char *const names[3] = { "tls_cert", "tls_key", "tls_client_ca" };
    char *texts[3] = { NULL, NULL, NULL };
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; status == INLAY_OK && i < 3; i++)
        if (settings_text(server->settings, files[i])[0] != '\0')
            status = read_pem(names[i], settings_text(server->settings, files[i]), &texts[i], diag);
    if (status == INLAY_OK && server->tls != NULL)
        status = tls_reload(server->tls, texts[0], texts[1], texts[2], diag);
    else if (status == INLAY_OK)
        status = tls_create(texts[0], texts[1], texts[2], settings_text(server->settings, SET_tls_min_version),
                            &server->tls, diag);
    for (uint32_t i = 0; i < 3; i++)
        free(texts[i]);
    return status;
}

static inlay_status open_tls(struct server *server, inlay_diag *diag)
{
    bool certificate = settings_text(server->settings, SET_tls_cert)[0] != '\0',
         key = settings_text(server->settings, SET_tls_key)[0] != '\0';

    server->access.is_worker = supervise_is_worker();
    server->access.needs_certificates = settings_text(server->settings, SET_tls_client_ca)[0] != '\0';
    if (!certificate && !key)
        return !server->access.needs_certificates
                   ? INLAY_OK
                   : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "tls_client_ca needs tls_cert and tls_key");
    if (!certificate || !key)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "tls_cert and tls_key: set both or neither");
    return load_tls(server, diag);
}

static inlay_status open_log(struct server *server, inlay_diag *diag)
{
    const char *path = settings_text(server->settings, SET_access_log);

    server->access_log = -1;
    if (strcmp(path, "-") == 0)
        server->access_log = STDERR_FILENO;
    else if (path[0] != '\0')
        server->access_log = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (path[0] != '\0' && server->access_log < 0)
        return output_not_created(path, diag);
    return INLAY_OK;
}

/* SIGHUP: opens the access log again, which may have been renamed, and reads tokens and certificates again. What cannot
 * be read stays as it was. */
static void reload(struct server *server)
{
    const char *log = settings_text(server->settings, SET_access_log);
    int fd = server->access_log > STDERR_FILENO ? open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640) : -1;
    inlay_diag diags[3] = { INLAY_DIAG_INIT, INLAY_DIAG_INIT, INLAY_DIAG_INIT };
    bool good = true;

    if (fd >= 0) {
        (void)dup3(fd, server->access_log, O_CLOEXEC); /* lines that are being written go to one of the files */
        atomic_store(&server->access_log_cut, false);
        (void)close(fd);
    }
    diags[0].code =
        tokens_reload(&server->access.users, "token_file", settings_text(server->settings, SET_token_file), &diags[0]);
    diags[1].code = tokens_reload(&server->access.admins, "admin_token_file",
                                  settings_text(server->settings, SET_admin_token_file), &diags[1]);
    if (server->tls != NULL)
        diags[2].code = load_tls(server, &diags[2]);
    for (uint32_t i = 0; i < 3; i++) {
        if (diags[i].code != INLAY_OK)
            log_line(LOG_ERROR_LINE, "SIGHUP: %s", diags[i].text);
        good &= diags[i].code == INLAY_OK;
    }
    log_line(LOG_INFO_LINE, "SIGHUP: tokens, certificates and access log %s", good ? "reloaded" : "reloaded in part");
}

/* Each worker writes a separate trace file. */
static inlay_status open_trace(struct server *server, inlay_diag *diag)
{
    const char *path = settings_text(server->settings, SET_trace_file);
    char file[4200];

    (void)snprintf(file, sizeof file, supervise_is_worker() && path[0] != '\0' ? "%s.%d" : "%s", path, (int)getpid());
    return trace_create(file, server->counts, &server->trace, diag);
}

static inlay_status open_shared_memory(struct server *server, inlay_diag *diag)
{
    if (settings_int(server->settings, SET_shared_memory) == 0)
        return INLAY_OK;
    if (settings_int(server->settings, SET_workers) > 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "shared_memory is not possible with workers");
    return shared_memory_create(&server->shared_memory, diag);
}

static inlay_status open_front(program_state *state, inlay_diag *diag)
{
    inlay_status status = front_start(&state->server, protocol_open, &state->front, diag);

    if (status == INLAY_OK)
        atomic_store(&state->server.counts->listens, 1);
    watch_set_front(state->server.watch, state->front);
    return status;
}

static uint64_t run_bytes(void *user)
{
    return repository_run_bytes(((const struct server *)user)->repository);
}

/* See run_budget.release_idle. */
static void release_idle(void *user)
{
    const uint64_t least = 1 << 20; /* bytes that are worth a new preparation of the input sizes */
    const struct server *server = user;
    struct model *model;
    uint32_t at = 0;

    while ((model = repository_next(server->repository, &at)) != NULL) {
        if (model->ensemble != NULL || model_run_bytes(model) >= least)
            sched_trim(server->sched, model);
        model_unref(model);
    }
}

static void set_budget(program_state *state)
{
    state->budget.bytes = settings_runs_memory(&state->settings);
    state->budget.used = run_bytes;
    state->budget.release_idle = release_idle;
    state->budget.user = &state->server;
    state->budget.waits = &state->server.counts->memory_waits;
}

static inlay_status start(program_state *state, inlay_diag *diag)
{
    struct server *server = &state->server;
    uint32_t runners = (uint32_t)settings_int(&state->settings, SET_runners);
    inlay_status status = INLAY_OK;

    server->settings = &state->settings;
    server->limits.body_bytes = (uint64_t)settings_int(&state->settings, SET_max_body_bytes);
    server->limits.inflight_bytes = (uint64_t)settings_int(&state->settings, SET_max_inflight_bytes);
    server->limits.header_bytes = (uint64_t)settings_int(&state->settings, SET_max_header_bytes);
    server->limits.receive_ns = (uint64_t)settings_int(&state->settings, SET_receive_timeout_ms) * 1000000;
    server->limits.timeout_ns = (uint64_t)settings_int(&state->settings, SET_timeout_ms) * 1000000;
    server->started_ns = clock_ns();
    if (runners == 0)
        runners = cpus_allowed();
    server->runners = runners;
    server->load_header = settings_int(&state->settings, SET_load_header) != 0;
    INLAY_TRY(supervise_open_board(&state->settings, &server->board, diag));
    server->counts = board_own(&server->board);
    atomic_store(&server->counts->pid, (uint64_t)getpid());
    INLAY_TRY(open_log(server, diag));
    INLAY_TRY(tokens_read("token_file", settings_text(&state->settings, SET_token_file), &server->access.users, diag));
    INLAY_TRY(tokens_read("admin_token_file", settings_text(&state->settings, SET_admin_token_file),
                          &server->access.admins, diag));
    INLAY_TRY(open_trace(server, diag));
    INLAY_TRY(
        otlp_create(settings_text(&state->settings, SET_trace_endpoint), settings_text(&state->settings, SET_trace_ca),
                    (uint32_t)settings_int(&state->settings, SET_trace_sample), server->counts, &server->otlp, diag));
    INLAY_TRY(open_shared_memory(server, diag));
    INLAY_TRY(open_tls(server, diag));
    set_budget(state);
    INLAY_TRY(repository_open(&state->settings, runners, &server->board, &state->budget, &server->repository, diag));
    INLAY_TRY(sched_create(runners, (sched_lending){ front_lend, front_take_back }, &server->sched, diag));
    INLAY_TRY(loader_create(server, &server->loader, diag));
    INLAY_TRY(prepare_create(&server->prepare, diag));
    INLAY_TRY(watch_create(server, &server->watch, diag));
    if (!supervise_is_worker())
        INLAY_TRY(open_front(state, diag));
done:
    return status;
}

/* Ends the process with an exit code other than 0. */
static void give_up(program_state *state)
{
    atomic_store(&state->failed, true);
    (void)kill(getpid(), SIGTERM);
}

/* While another worker has a version that this one could not load, this one accepts no connections, because it would
 * answer 503; the loader tries again. false: the server ends meanwhile. */
static bool catch_up(const struct server *server)
{
    const struct timespec pause = { 0, 10000000 };
    bool waits = false;

    while (!settings_stopped(server->settings) && repository_lacks(server->repository)) {
        if (!waits)
            log_line(LOG_WARNING_LINE, "%s",
                     "this worker accepts no connections yet, because another one has a model that could not be "
                     "loaded here; it tries again");
        waits = true;
        (void)nanosleep(&pause, NULL);
    }
    return !settings_stopped(server->settings);
}

/* Loads the models while health checks are already answered. A worker listens only afterwards, and is ready at once. */
static void load_models(program_state *state)
{
    struct server *server = &state->server;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t ready, failed;
    struct stat st;
    bool complete, announced;

    repository_load_all(server->repository);
    atomic_store(&server->phase.loaded, true);
    if (settings_stopped(&state->settings) || (supervise_is_worker() && !catch_up(server)))
        return;
    complete = server_is_complete(server, &ready, &failed);
    if (!complete && ready == 0 && stat(state->settings.models, &st) == 0 && !S_ISDIR(st.st_mode)) {
        log_line(LOG_ERROR_LINE, "%s is not loaded; exiting (strict = 0 continues without it)", state->settings.models);
        give_up(state);
        return;
    }
    announced = server_update_ready(server);
    if (supervise_is_worker() && open_front(state, &diag) != INLAY_OK) {
        log_line(LOG_ERROR_LINE, "%s", diag.text);
        give_up(state);
        return;
    }
    if (announced)
        server_announce_ready(server);
    else if (!complete && ready == 0 && failed == 0)
        log_line(LOG_WARNING_LINE, "not ready: %s has no models (a folder of one model needs model_name)",
                 state->settings.models);
    else if (!complete)
        log_line(LOG_WARNING_LINE,
                 "not ready: %u versions could not be loaded, or lack a provider that is in quarantine for all "
                 "models; %u are loaded; "
                 "strict = 0 ignores it",
                 failed, ready);
}

static void *load(void *user)
{
    program_state *state = user;

    load_models(state);
    atomic_store(&state->loaded, true);
    return NULL;
}

/* Waits until no request is in progress and none is on its way; false: the time is up. */
static bool wait_idle(program_state *state, uint64_t ms)
{
    const struct timespec pause = { 0, 2000000 };
    uint64_t until = clock_ns() + ms * 1000000;
    bool idle;

    for (;;) {
        idle = atomic_load(&state->server.counts->exchanges) == 0 && front_is_quiet(state->front);
        if (idle || clock_ns() >= until)
            return idle;
        (void)nanosleep(&pause, NULL);
    }
}

/* Waits for loads in progress, which were asked to stop. A load may not react for a long time (a plugin that compiles
 * or runs). At the end of the grace time, the process exits without it. */
static void end_loads(program_state *state)
{
    const struct timespec pause = { 0, 1000000 };

    while ((state->loading && !atomic_load(&state->loaded)) || !loader_is_idle(state->server.loader)) {
        if (clock_ns() >= state->leave_ns) {
            log_line(LOG_WARNING_LINE, "%s", "a model that is being loaded does not stop; exiting without it");
            _exit(state->failed ? 1 : 0);
        }
        (void)nanosleep(&pause, NULL);
    }
    if (state->loading)
        (void)pthread_join(state->load_thread, NULL);
    state->loading = false;
}

/* Waits for the copy of a request that runs, which was asked to stop; see end_loads(). */
static void end_copies(program_state *state)
{
    const struct timespec pause = { 0, 1000000 };

    if (state->server.sched == NULL)
        return;
    sched_end(state->server.sched);
    while (sched_is_spare_running(state->server.sched)) {
        if (clock_ns() >= state->leave_ns) {
            log_line(LOG_WARNING_LINE, "%s", "the run of a copy of a request does not stop; exiting without it");
            _exit(state->failed ? 1 : 0);
        }
        (void)nanosleep(&pause, NULL);
    }
}

/* A supervisor's signal stops all workers: then no process is left to accept the connections that wait. */
static void note_sender(struct server *server, int which, const siginfo_t *info)
{
    server->phase.all_stop |= which > 0 && info->si_pid == getppid() && supervise_owns_sockets();
}

/* Reports not ready, then closes the listening sockets, then completes the requests or, after grace_ms, refuses
 * them. */
static void drain(program_state *state, const sigset_t *signals)
{
    struct server *server = &state->server;
    uint64_t ms = (uint64_t)settings_int(&state->settings, SET_drain_ms),
             grace_ms = (uint64_t)settings_int(&state->settings, SET_grace_ms);
    struct timespec pause = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };
    siginfo_t second;

    __atomic_store_n(&state->settings.stop, 1, __ATOMIC_SEQ_CST); /* stops loads */
    state->leave_ns = clock_ns() + grace_ms * 1000000;
    if (supervise_is_worker())
        end_loads(state); /* a worker listens after loading, or never */
    atomic_store(&server->phase.ready, false);
    atomic_store(&server->phase.draining, true);
    atomic_store(&server->counts->listens, 0);
    listen_notify("STOPPING=1");
    log_line(LOG_INFO_LINE, "draining: answers for %llu ms, then requests have %llu ms to finish",
             (unsigned long long)(state->failed ? 0 : ms), (unsigned long long)grace_ms);
    if (ms > 0 && !state->failed)
        note_sender(server, sigtimedwait(signals, &second, &pause), &second); /* a second signal ends the wait */
    state->leave_ns = clock_ns() + grace_ms * 1000000;
    front_drain(state->front);
    if (wait_idle(state, grace_ms)) {
        front_close_idle(state->front);
        (void)wait_idle(state, grace_ms);
    } else {
        atomic_store(&server->phase.refusing, true);
        prepare_end(server->prepare);
        sched_end(server->sched);
        if (wait_idle(state, 1000))
            return;
        front_cancel_calls(state->front);
        (void)wait_idle(state, 1000);
    }
}

static void stop(program_state *state)
{
    struct server *server = &state->server;

    if (server->watch != NULL)
        watch_set_front(server->watch, NULL);
    if (!front_stop(state->front)) {
        log_line(LOG_ERROR_LINE, "%s", "a run does not end; exiting without it");
        _exit(1);
    }
    end_loads(state);
    end_copies(state);
    watch_destroy(server->watch); /* its thread uses the loader and the next */
    prepare_destroy(server->prepare);
    loader_destroy(server->loader);
    sched_destroy(server->sched);
    otlp_destroy(server->otlp);
    repository_close(server->repository);
    run_budget_deinit(&state->budget);
    tokens_deinit(&server->access.users);
    tokens_deinit(&server->access.admins);
    trace_destroy(server->trace);
    shared_memory_destroy(server->shared_memory);
    tls_destroy(server->tls);
    if (server->access_log > STDERR_FILENO)
        (void)close(server->access_log);
    board_close(&server->board);
    settings_deinit(&state->settings);
}

int main(int argc, char **argv)
{
    static program_state state;
    inlay_diag diag = INLAY_DIAG_INIT;
    siginfo_t info;
    sigset_t signals;
    int code = 0, which;

    output_guard_streams("inlay-serve");
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGHUP);
    if (supervise_is_worker())
        supervise_begin_worker();
    else
        (void)sigaddset(&signals, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL); /* for all threads that are created later */
    settings_parse(&state.settings, argc, argv);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is a full disk */
    (void)signal(SIGUSR1, SIG_IGN); /* of tools that send it to every server */
    (void)signal(SIGUSR2, SIG_IGN);
    raise_file_limit();
    run_budget_init(&state.budget);
    if (supervise_wanted(&state.settings)) {
        code = supervise(&state.settings, argv);
        settings_deinit(&state.settings);
        return code;
    }
    if (start(&state, &diag) != INLAY_OK) {
        log_line(LOG_ERROR_LINE, "%s", diag.text);
        code = diag.code == INLAY_INVALID_ARGUMENT ? 2 : diag.code == INLAY_NOT_FOUND ? 3 : 1;
    } else {
        state.loading = pthread_create(&state.load_thread, NULL, load, &state) == 0;
        while ((which = sigwaitinfo(&signals, &info)) == SIGHUP || which < 0)
            if (which == SIGHUP)
                reload(&state.server);
        note_sender(&state.server, which, &info);
        (void)sigdelset(&signals, SIGHUP);
        drain(&state, &signals);
        code = atomic_load(&state.failed) ? 1 : 0;
    }
    stop(&state);
    log_line(LOG_INFO_LINE, "exiting with code %d", code);
    return code;
}
