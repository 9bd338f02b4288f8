#include "plugin/crash.h"
#include "base/mapped_file.h"
#include "base/pin.h"
#include "inlay/check.h"
#include "plugin/module.h"
#include "plugin/verdict.h"
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

void (*crash_on_enter)(const crash_scene *scene);
void (*crash_restart)(void);

enum { RANGES = 128 };
static struct range {
    uintptr_t begin, end;
    const plugin_module *module; /* written last when added, first when removed; NULL = free */
} ranges[RANGES];

struct extent {
    uintptr_t within, begin, end;
};

static int find_extent(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct extent *extent = arg;
    uintptr_t begin = UINTPTR_MAX, end = 0;

    (void)size;
    for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

        if (segment->p_type != PT_LOAD)
            continue;
        if (info->dlpi_addr + segment->p_vaddr < begin)
            begin = info->dlpi_addr + segment->p_vaddr;
        if (info->dlpi_addr + segment->p_vaddr + segment->p_memsz > end)
            end = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;
    }
    if (extent->within < begin || extent->within >= end)
        return 0;
    extent->begin = begin;
    extent->end = end;
    return 1;
}

void crash_add_module(const plugin_module *module, const void *within)
{
    struct extent extent = { .within = (uintptr_t)within };

    if (dl_iterate_phdr(find_extent, &extent) == 0)
        return;
    for (uint32_t i = 0; i < RANGES; i++) {
        if (ranges[i].module != NULL)
            continue;
        INLAY_CHECK(extent.begin <= extent.within && extent.within < extent.end);
        ranges[i].begin = extent.begin;
        ranges[i].end = extent.end;
        __atomic_store_n(&ranges[i].module, module, __ATOMIC_RELEASE);
        return;
    }
}

void crash_remove_module(const plugin_module *module)
{
    for (uint32_t i = 0; i < RANGES; i++)
        if (ranges[i].module == module)
            __atomic_store_n(&ranges[i].module, NULL, __ATOMIC_RELEASE);
}

static const plugin_module *module_at(uintptr_t address)
{
    for (uint32_t i = 0; i < RANGES; i++) {
        const plugin_module *module = __atomic_load_n(&ranges[i].module, __ATOMIC_ACQUIRE);

        if (module != NULL && address >= ranges[i].begin && address < ranges[i].end)
            return module;
    }
    return NULL;
}

static uintptr_t program_counter(const void *context)
{
#if defined(__x86_64__)
    return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.pc;
#else
    (void)context;
    return 0;
#endif
}

static const struct {
    int signal;
    const char *name;
} caught[] = {
    { SIGSEGV, "SIGSEGV" }, { SIGBUS, "SIGBUS" }, { SIGFPE, "SIGFPE" }, { SIGILL, "SIGILL" }, { SIGABRT, "SIGABRT" }
};
enum { CAUGHT = sizeof caught / sizeof caught[0], MAX_WAITS = 2000 };

static struct sigaction before[CAUGHT];
static uint32_t reported; /* atomic: 0 no report yet, 1 a thread is writing it, 2 done */

/* Appends as much as fits. Unprintable bytes become '?', because names come from files. */
static void append(char *line, size_t bytes, const char *text)
{
    size_t at = strlen(line);

    for (; text != NULL && *text != '\0' && at + 1 < bytes; text++)
        line[at++] = *text >= ' ' && *text != 0x7f ? *text : '?';
    line[at] = '\0';
}

/* "it crashed (SIGSEGV) in assess, provider p, node 'n'" */
static void append_description(char *line, size_t bytes, const crash_scene *scene, const char *signal_name)
{
    append(line, bytes, "crashed (");
    append(line, bytes, signal_name);
    append(line, bytes, scene->call != NULL ? ") in " : ") in a thread that it started");
    append(line, bytes, scene->call);
    if (scene->node != NULL) {
        append(line, bytes, " of node '");
        append(line, bytes, scene->node);
        append(line, bytes, "'");
    }
    if (scene->provider != NULL) {
        append(line, bytes, ", provider ");
        append(line, bytes, scene->provider);
    }
}

/* Is the signal about a mapped file that cannot be read? That is not a fault of the code that reads it. */
static bool is_file_fault(const siginfo_t *info)
{
    return info->si_signo == SIGBUS && info->si_code > 0 && info->si_code != BUS_ADRALN;
}

static void report(const crash_scene *scene, const char *signal_name, bool file_fault)
{
    static char line[1024], what[VERDICT_TEXT];
    const char *name = scene->module->file.name != NULL ? scene->module->file.name : "?";
    bool marked;

    append(what, sizeof what, "it ");
    append_description(what, sizeof what, scene, signal_name);
    append(what, sizeof what, " while a model was processed");
    marked = !file_fault && scene->module->mark_key != NULL &&
             verdict_mark_crash(scene->module->mark_key, scene->module->mark_file, scene->model, what);
    append(line, sizeof line, "inlay: plugin ");
    append(line, sizeof line, name);
    append(line, sizeof line, " (");
    append(line, sizeof line, scene->module->file.path);
    append(line, sizeof line, ") ");
    append_description(line, sizeof line, scene, signal_name);
    if (file_fault)
        append(line, sizeof line, ": a file that is mapped there was cut short, or the disk failed");
    if (marked) {
        append(line, sizeof line, "; it is not loaded for this model for a day, or until 'inlay providers --retry ");
        append(line, sizeof line, name);
        append(line, sizeof line, "'");
    }
    line[strlen(line) < sizeof line - 1 ? strlen(line) : sizeof line - 2] = '\n';
    (void)!write(STDERR_FILENO, line, strnlen(line, sizeof line));
    if (marked && crash_restart != NULL)
        crash_restart();
}

/* Forwards the signal to the previous handler. Returning from a handler repeats a faulting instruction, so the
 * default action is taken at the fault itself. A signal from kill() or raise() must be raised again. */
static void forward(int number, siginfo_t *info, void *context, const struct sigaction *old)
{
    if ((old->sa_flags & SA_SIGINFO) != 0 && old->sa_sigaction != NULL) {
        old->sa_sigaction(number, info, context);
    } else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
        old->sa_handler(number);
    } else if (old->sa_handler == SIG_DFL || info->si_code > 0) { /* a fault can't be ignored */
        struct sigaction plain = { .sa_handler = SIG_DFL };

        (void)sigaction(number, &plain, NULL);
        if (info->si_code <= 0)
            (void)raise(number);
    }
}

static void handle(int number, siginfo_t *info, void *context)
{
    const crash_scene *current = crash_here.borrowed != NULL ? crash_here.borrowed : &crash_here;
    crash_scene scene = *current;
    uint32_t index = 0, idle = 0;

    if (number == SIGBUS && mapped_file_repair(info->si_code, info->si_addr))
        return;
    while (index + 1 < CAUGHT && caught[index].signal != number)
        index++;
    if (scene.describe != NULL) {
        scene.module = NULL;
        if (scene.step != NULL)
            scene.describe(scene.step, &scene);
    }
    if (scene.module == NULL)
        scene = (crash_scene){ .module = module_at(program_counter(context)), .model = scene.model };
    if (scene.module != NULL &&
        __atomic_compare_exchange_n(&reported, &idle, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        report(&scene, caught[index].name, is_file_fault(info));
        __atomic_store_n(&reported, 2, __ATOMIC_RELEASE);
    }
    /* Workers of one loop crash together: wait until the report of another thread is complete before the process may
     * end. */
    for (uint32_t i = 0; i < MAX_WAITS && __atomic_load_n(&reported, __ATOMIC_ACQUIRE) == 1; i++)
        (void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    forward(number, info, context, &before[index]);
}

enum { STACK_BYTES = 64 * 1024 };
static pthread_key_t stack_key;
static uint32_t installed; /* atomic */
static _Thread_local bool has_stack;

static void drop_stack(void *stack)
{
    const stack_t idle = { .ss_flags = SS_DISABLE };

    (void)sigaltstack(&idle, NULL);
    (void)munmap(stack, STACK_BYTES);
}

void crash_thread(void)
{
    stack_t stack = { .ss_size = STACK_BYTES }, old;

    if (has_stack || __atomic_load_n(&installed, __ATOMIC_ACQUIRE) == 0)
        return;
    has_stack = true;
    if (sigaltstack(NULL, &old) != 0 || (old.ss_flags & SS_DISABLE) == 0)
        return; /* the application has already set one */
    stack.ss_sp = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack.ss_sp == MAP_FAILED)
        return;
    if (pthread_setspecific(stack_key, stack.ss_sp) == 0 && sigaltstack(&stack, NULL) == 0)
        return;
    (void)pthread_setspecific(stack_key, NULL);
    (void)munmap(stack.ss_sp, STACK_BYTES);
}

static void install(void)
{
    struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK };

    if (pthread_key_create(&stack_key, drop_stack) != 0)
        return;
    pin_library(&installed); /* for the handlers and the key's destructor */
    (void)sigemptyset(&action.sa_mask);
    for (uint32_t i = 0; i < CAUGHT; i++)
        (void)sigaction(caught[i].signal, &action, &before[i]);
    __atomic_store_n(&installed, 1, __ATOMIC_RELEASE);
}

void crash_install(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, install);
    crash_thread();
}
