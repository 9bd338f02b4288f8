/* inlay-serve: the Open Inference Protocol over HTTP. Starts, waits for SIGTERM, drains, ends. */
#include "base/output.h"
#include "base/cpus.h"
#include "serve/grpc.h"
#include "serve/listen.h"
#include "serve/log.h"
#include "serve/server.h"
#include "serve/supervise.h"
#include "serve/tls.h"
#include "serve/trace.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* As many connections as the user may have, not as many as a shell is given. */
static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* ------------------------------------------------------------------ the parts */

typedef struct program_state {
    struct server server;
    struct settings settings;
    struct MHD_Daemon *daemon;
    char *certificate, *key, *client_ca; /* PEM; NULL = none */
    pthread_t loader;
    bool loading;       /* loader is there to be joined */
    atomic_bool loaded; /* it has come to its end */
    bool failed;        /* to listen, after the models were loaded */
    uint64_t leave_ns;  /* from here on nothing that is being loaded is waited for */
    uint32_t ready_count;
} program_state;

/* A PEM file as text. */
static inlay_status read_pem(const char *path, char **out_text, inlay_diag *diag)
{
    enum { MAX_BYTES = 1 << 20 };
    FILE *f = fopen(path, "re");
    size_t bytes;

    if (f == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    *out_text = calloc(1, MAX_BYTES + 1);
    bytes = *out_text != NULL ? fread(*out_text, 1, MAX_BYTES, f) : 0;
    (void)fclose(f);
    return bytes > 0 ? INLAY_OK : inlay_fail(diag, INLAY_IO_ERROR, "%s: is empty, or no memory for it", path);
}

static inlay_status read_tls(program_state *p, inlay_diag *diag)
{
    const char *certificate = settings_text(&p->settings, SET_tls_cert),
               *key = settings_text(&p->settings, SET_tls_key);
    const char *client_ca = settings_text(&p->settings, SET_tls_client_ca);
    inlay_status status;

    if (certificate[0] == '\0' && key[0] == '\0')
        return client_ca[0] == '\0'
                   ? INLAY_OK
                   : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "tls_client_ca needs tls_cert and tls_key");
    if (certificate[0] == '\0' || key[0] == '\0')
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "tls_cert and tls_key belong together: set both");
    status = read_pem(certificate, &p->certificate, diag);
    if (status == INLAY_OK)
        status = read_pem(key, &p->key, diag);
    if (status == INLAY_OK && client_ca[0] != '\0')
        status = read_pem(client_ca, &p->client_ca, diag);
    p->server.client_certificates = p->client_ca != NULL;
    return status != INLAY_OK ? status : tls_create(p->certificate, p->key, p->client_ca, &p->server.tls, diag);
}

static inlay_status open_log(struct server *s, inlay_diag *diag)
{
    const char *path = settings_text(s->settings, SET_access_log);

    s->access_log = -1;
    if (strcmp(path, "-") == 0)
        s->access_log = STDERR_FILENO;
    else if (path[0] != '\0')
        s->access_log = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (path[0] != '\0' && s->access_log < 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    return INLAY_OK;
}

/* Workers have a file each. */
static inlay_status open_trace(struct server *s, inlay_diag *diag)
{
    const char *path = settings_text(s->settings, SET_trace_file);
    char own[4200];

    (void)snprintf(own, sizeof own, supervise_is_worker() && path[0] != '\0' ? "%s.%d" : "%s", path, (int)getpid());
    return trace_create(own, &s->trace, diag);
}

static void log_mhd(void *user, const char *format, va_list args)
{
    (void)user;
    (void)vfprintf(stderr, format, args);
}

static uint32_t thread_count(const struct settings *s)
{
    uint32_t count = (uint32_t)settings_int(s, SET_serve_threads), cpus = cpus_allowed();

    return count > 0 ? count : cpus < 8 ? cpus : 8;
}

/* What libmicrohttpd has for a connection: a header, and as much again for pieces of the body and the answer's header.
 * It clears all of it for each request. Above 32 KiB the memory is mapped, and given back with the connection; below,
 * it would be the heap's, which grows by it. */
static size_t connection_bytes(const struct server *s)
{
    return (s->max_header_bytes > 16384 ? 2 * s->max_header_bytes : 32768) + 4096;
}

static inlay_status start_http(program_state *p, inlay_diag *diag)
{
    struct server *s = &p->server;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC;
    char name[128], url[160];
    int fd, family;
    inlay_status status = listen_open("rest", settings_text(s->settings, SET_listen),
                                      (int)settings_int(s->settings, SET_port), &fd, &family, name, sizeof name, diag);
    struct MHD_OptionItem over_tls[] = { { MHD_OPTION_HTTPS_MEM_CERT, 0, p->certificate },
                                         { MHD_OPTION_HTTPS_MEM_KEY, 0, p->key },
                                         { p->client_ca != NULL ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0,
                                           p->client_ca },
                                         { MHD_OPTION_END, 0, NULL } };
    struct MHD_OptionItem none[] = { { MHD_OPTION_END, 0, NULL } };

    if (status != INLAY_OK)
        return status;
    flags |= (family == AF_INET6 ? MHD_USE_IPv6 : 0) | (p->certificate != NULL ? MHD_USE_TLS : 0) |
             (s->settings->verbose ? MHD_USE_ERROR_LOG : 0);
    p->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, exchange_handle, s, MHD_OPTION_EXTERNAL_LOGGER, log_mhd, NULL, MHD_OPTION_LISTEN_SOCKET,
        fd, MHD_OPTION_CONNECTION_MEMORY_LIMIT, connection_bytes(s), MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)settings_int(s->settings, SET_max_connections), MHD_OPTION_THREAD_POOL_SIZE,
        thread_count(s->settings) > 1 ? thread_count(s->settings) : 0, MHD_OPTION_NOTIFY_CONNECTION, watch_connection,
        s, MHD_OPTION_NOTIFY_COMPLETED, exchange_completed, s, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY,
        p->certificate != NULL ? over_tls : none, MHD_OPTION_END);
    if (p->daemon == NULL) {
        (void)close(fd);
        return inlay_fail(diag, INLAY_IO_ERROR, "cannot start serving on %s%s", name,
                          p->certificate != NULL ? "; are tls_cert and tls_key a pair in PEM?" : "");
    }
    (void)snprintf(url, sizeof url, "%s://%s", p->certificate != NULL ? "https" : "http", name);
    log_line(LOG_INFO_LINE, "listening on %s", url);
    return INLAY_OK;
}

static inlay_status start_grpc(program_state *p, inlay_diag *diag)
{
    int port = (int)settings_int(&p->settings, SET_grpc_port);
    char name[128];
    inlay_status status;

    if (port < 0)
        return INLAY_OK;
    status =
        grpc_start(&p->server, settings_text(&p->settings, SET_listen), port, &p->server.grpc, name, sizeof name, diag);
    if (p->server.grpc != NULL)
        log_line(LOG_INFO_LINE, "listening on %s://%s", p->server.tls != NULL ? "grpcs" : "grpc", name);
    return status;
}

static inlay_status start_listening(program_state *p, inlay_diag *diag)
{
    inlay_status status = start_http(p, diag);

    return status == INLAY_OK ? start_grpc(p, diag) : status;
}

static inlay_status start(program_state *p, inlay_diag *diag)
{
    struct server *s = &p->server;
    uint32_t runners = (uint32_t)settings_int(&p->settings, SET_runners);
    inlay_status status = INLAY_OK;

    s->settings = &p->settings;
    s->max_body_bytes = (uint64_t)settings_int(&p->settings, SET_max_body_bytes);
    s->max_header_bytes = (uint64_t)settings_int(&p->settings, SET_max_header_bytes);
    s->receive_ns = (uint64_t)settings_int(&p->settings, SET_receive_timeout_ms) * 1000000;
    s->timeout_ns = (uint64_t)settings_int(&p->settings, SET_timeout_ms) * 1000000;
    s->started_ns = clock_ns();
    if (runners == 0)
        runners = cpus_allowed();
    s->runners = runners;
    s->load_header = settings_int(&p->settings, SET_load_header) != 0;
    INLAY_TRY(open_log(s, diag));
    INLAY_TRY(tokens_read(settings_text(&p->settings, SET_token_file), &s->tokens, diag));
    INLAY_TRY(tokens_read(settings_text(&p->settings, SET_admin_token_file), &s->admin_tokens, diag));
    INLAY_TRY(open_trace(s, diag));
    INLAY_TRY(read_tls(p, diag));
    INLAY_TRY(repository_open(&p->settings, runners, &s->repository, diag));
    INLAY_TRY(sched_create(runners, &s->sched, diag));
    INLAY_TRY(watch_create(s, &s->watch, diag));
    INLAY_TRY(keeper_create(s, &s->keeper, diag));
    if (!supervise_is_worker())
        INLAY_TRY(start_listening(p, diag));
done:
    return status;
}

/* Loads the models while the health checks are already answered; a worker takes no connection before, and is ready when
 * it does. */
static void load_models(program_state *p)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    p->ready_count = repository_load_all(p->server.repository);
    atomic_store(&p->server.ready, true);
    if (settings_stopped(&p->settings)) { /* drain() came before, or comes now and says the same */
        atomic_store(&p->server.ready, false);
        return;
    }
    if (supervise_is_worker() && start_listening(p, &diag) != INLAY_OK) {
        log_line(LOG_ERROR_LINE, "%s", diag.text);
        p->failed = true;
        (void)kill(getpid(), SIGTERM);
        return;
    }
    log_line(LOG_INFO_LINE, "ready, models: %u", p->ready_count);
    if (supervise_is_worker())
        supervise_ready();
    else
        listen_notify("READY=1");
}

static void *load(void *user)
{
    program_state *p = user;

    load_models(p);
    atomic_store(&p->loaded, true);
    return NULL;
}

/* ------------------------------------------------------------------ the end */

/* Waits until there are no requests, or the time is up. */
static bool wait_idle(struct server *s, uint64_t ms)
{
    const struct timespec pause = { 0, 2000000 };
    uint64_t until = clock_ns() + ms * 1000000;

    while (atomic_load(&s->exchanges) > 0 && clock_ns() < until)
        (void)nanosleep(&pause, NULL);
    return atomic_load(&s->exchanges) == 0;
}

/* Models that are being loaded need not be finished, but what loads one may take no notice for a while, or for ever: a
 * plugin that compiles, a run of it. At the end of the grace time it is left alone, and the process ends around it. */
static void end_loads(program_state *p)
{
    const struct timespec pause = { 0, 1000000 };

    while ((p->loading && !atomic_load(&p->loaded)) || !keeper_is_idle(p->server.keeper)) {
        if (clock_ns() >= p->leave_ns) {
            log_line(LOG_WARNING_LINE, "%s", "a model that is being loaded does not stop; leaving it");
            _exit(p->failed ? 1 : 0);
        }
        (void)nanosleep(&pause, NULL);
    }
    if (p->loading)
        (void)pthread_join(p->loader, NULL);
    p->loading = false;
}

/* Not ready, then no new connections, then what is at work is finished, or cancelled when the time is up. */
static void drain(program_state *p, const sigset_t *signals)
{
    struct server *s = &p->server;
    uint64_t ms = (uint64_t)settings_int(&p->settings, SET_drain_ms),
             grace_ms = (uint64_t)settings_int(&p->settings, SET_grace_ms);
    struct timespec pause = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };
    int listening;

    __atomic_store_n(&p->settings.stop, 1, __ATOMIC_SEQ_CST); /* of loading */
    p->leave_ns = clock_ns() + grace_ms * 1000000;
    if (supervise_is_worker())
        end_loads(p); /* it listens after that, or never */
    atomic_store(&s->ready, false);
    atomic_store(&s->draining, true);
    listen_notify("STOPPING=1");
    if (ms > 0)
        (void)sigtimedwait(signals, NULL, &pause); /* a second signal ends the wait */
    p->leave_ns = clock_ns() + grace_ms * 1000000;
    grpc_drain(s->grpc);
    listening = p->daemon != NULL ? MHD_quiesce_daemon(p->daemon) : -1;
    if (listening >= 0)
        (void)close(listening);
    if (!wait_idle(s, grace_ms)) {
        atomic_store(&s->refusing, true);
        watch_cancel_all(s->watch);
        grpc_cancel_all(s->grpc);
        (void)wait_idle(s, 2000);
    }
}

/* Connections that sleep must not be there when libmicrohttpd stops: a run that does not end would hold it for good. */
static void end_if_stuck(struct server *s)
{
    const struct timespec pause = { 0, 1000000 };

    for (uint32_t i = 0; i < 2000; i++) {
        if (atomic_load(&s->suspended) == 0)
            return;
        (void)nanosleep(&pause, NULL);
    }
    log_line(LOG_ERROR_LINE, "%s", "a run does not end; leaving it");
    _exit(1);
}

static void stop(program_state *p)
{
    struct server *s = &p->server;

    end_if_stuck(s);
    if (p->daemon != NULL)
        MHD_stop_daemon(p->daemon);
    grpc_stop(s->grpc);
    end_loads(p);
    keeper_destroy(s->keeper);
    watch_destroy(s->watch);
    sched_destroy(s->sched);
    repository_close(s->repository);
    tokens_deinit(&s->tokens);
    tokens_deinit(&s->admin_tokens);
    trace_destroy(s->trace);
    tls_destroy(s->tls);
    if (s->access_log > STDERR_FILENO)
        (void)close(s->access_log);
    free(p->certificate);
    free(p->key);
    free(p->client_ca);
    settings_deinit(&p->settings);
}

int main(int argc, char **argv)
{
    static program_state p;
    inlay_diag diag = INLAY_DIAG_INIT;
    sigset_t signals;
    int code = 0, which;

    output_guard("inlay-serve");
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    if (supervise_is_worker())
        supervise_begin_worker();
    else
        (void)sigaddset(&signals, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL); /* in all threads that are made from here on */
    settings_parse(&p.settings, argc, argv);
    (void)signal(SIGPIPE, SIG_IGN);
    raise_file_limit();
    if (supervise_wanted(&p.settings)) {
        code = supervise(&p.settings, argv);
        settings_deinit(&p.settings);
        return code;
    }
    if (start(&p, &diag) != INLAY_OK) {
        log_line(LOG_ERROR_LINE, "%s", diag.text);
        code = diag.code == INLAY_INVALID_ARGUMENT ? 2 : diag.code == INLAY_NOT_FOUND ? 3 : 1;
    } else {
        p.loading = pthread_create(&p.loader, NULL, load, &p) == 0;
        (void)sigwait(&signals, &which);
        drain(&p, &signals);
        code = p.failed ? 1 : 0;
    }
    stop(&p);
    return code;
}
