/* plugin/crash.h - whose code a thread is running, and what is said of it when it crashes.
 *
 * Each thread keeps a note of the plugin call that it is in: the scene. Calls of the slow kind set and restore it as a
 * whole; the run loop sets it once a run and then stores one pointer a step, from which a handler works out the rest.
 * Where handlers are installed, a crash writes one line that names the plugin, the call and the node, leaves a
 * quarantine mark, and goes on to the handler that was there before: a core dump, a debugger or a sanitizer sees the
 * crash as if nothing had been between.
 *
 * A crash in this process can't be undone: the plugin may have died holding locks, or within malloc, so nothing here
 * jumps back out of a signal. What can be found out beforehand is found out in the probe (plugin/probe.h), whose
 * process may die; the command line, which has nothing to lose before it has begun, starts itself again
 * (crash_restart). */
#ifndef PLUGIN_CRASH_H
#define PLUGIN_CRASH_H
#include "threads/scene.h"
#include <stdbool.h>
#include <stddef.h>

/* Set in the probe: hears of every call before it is made. */
extern void (*crash_on_enter)(const crash_scene *scene);

/* Enters a call; returns what crash_leave() is to restore. The texts have to live until then. */
static inline crash_scene crash_enter(const struct plugin_module *module, const char *call, const char *who,
                                      const char *node)
{
    crash_scene before = crash_here;

    crash_here = (crash_scene){ .module = module, .call = call, .provider = who, .node = node };
    if (crash_on_enter != NULL)
        crash_on_enter(&crash_here);
    return before;
}
static inline void crash_leave(const crash_scene *before)
{
    crash_here = *before;
}

/* Installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT; once per process, for good. Also gives the calling
 * thread a stack of its own for them, so that a stack overflow can be told; other threads that run models get theirs
 * from crash_thread(). Any thread. */
void crash_install(void);
/* Cheap when nothing is installed, or this thread has been here before. */
void crash_thread(void);

/* Called by the handler when a plugin crashed and its mark was written: may start the program again and not come back.
 * Async-signal-safe. NULL = nobody. */
extern void (*crash_restart)(void);

/* Which addresses are whose, for crashes in threads that plugins started themselves. The registry's lock is held. */
void crash_add_module(const struct plugin_module *module, const void *within);
void crash_remove_module(const struct plugin_module *module);
#endif
