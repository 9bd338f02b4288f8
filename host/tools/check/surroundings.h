/* check/surroundings.h - observes what a plugin reads of its surroundings, the files that it writes, and its calls of
 * functions of the C library whose effects on the process cannot be read afterwards. All are noticed in its import
 * table. */
#ifndef CHECK_SURROUNDINGS_H
#define CHECK_SURROUNDINGS_H
#include "check/check.h"

/* Begins to watch the plugin with that dlopen handle. args, which stays valid, has the options that permit it to write
 * files. False: its imports cannot be patched. */
bool surroundings_watch(void *handle, const check_args *args);
/* Moves the clocks that the plugin reads; 0: none. Any thread. */
void surroundings_move_clocks(int64_t seconds);
/* From now on each variable of the environment that the plugin reads is the opposite: "1" if it is not set, and not set
 * if it is. Any thread. */
void surroundings_invert_variables(bool on);
/* The name of the variable that the plugin has read last since the previous call; NULL: none. Valid until the next
 * call. */
const char *surroundings_take_variable(void);
/* A call that it must not make ("mallopt", "open of /root/log"), since the previous call; NULL: none. Valid until the
 * next call. */
const char *surroundings_take_forbidden(void);
#endif
