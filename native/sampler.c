/* Where the threads of this process are, every 100 us or so: one timer for each thread.
 *
 * A process-wide interval timer ticks no faster than the kernel's clock (1 to 10 ms); a timer of
 * CLOCK_MONOTONIC that signals one thread is as fine as the hardware's. Samples go to a buffer that
 * is allocated before the first one; the handler only loads, adds and stores.
 *
 * Calls are for one thread: open, then any number of (arm, disarm, take), then close.
 * Those that can fail return 0 or more, else a negative errno.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <ucontext.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define API __attribute__((visibility("default")))

enum { SIGNAL = SIGPROF, THREADS_MAX = 1024, NS_PER_SECOND = 1000000000 };

struct sample {
    uintptr_t pc;
    int32_t   tid;
};

struct thread {
    int32_t tid;
    bool    seen;
    timer_t timer;
};

static struct sample *   samples;
static size_t            capacity;
static atomic_size_t     taken;
static atomic_bool       recording;
static struct thread     threads[THREADS_MAX];
static int               n_threads;
static struct sigaction  before;
static uint32_t          phase = 2463534242u;

static uintptr_t program_counter(const ucontext_t * context) {
#if defined(__x86_64__)
    return (uintptr_t) context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t) context->uc_mcontext.pc;
#else
    (void) context;
    return 0;
#endif
}

static void on_signal(int number, siginfo_t * info, void * context) {
    (void) number;
    if (info->si_code != SI_TIMER || !atomic_load_explicit(&recording, memory_order_relaxed)) {
        return;
    }
    const size_t at = atomic_fetch_add_explicit(&taken, 1, memory_order_relaxed);
    if (at < capacity) {
        samples[at].tid = info->si_value.sival_int;
        samples[at].pc  = program_counter(context);
    }
}

/* Uniform below limit: samples at a fixed distance from the start would see one place only. */
static long next_phase(long limit) {
    phase ^= phase << 13;
    phase ^= phase >> 17;
    phase ^= phase << 5;
    return (long) (phase % (uint32_t) limit) + 1;
}

static struct thread * find_thread(int32_t tid) {
    for (int i = 0; i < n_threads; i++) {
        if (threads[i].tid == tid) {
            return &threads[i];
        }
    }
    return NULL;
}

/* A timer that signals that thread. A thread that has just ended is no error. */
static int add_thread(int32_t tid) {
    struct sigevent event;
    if (n_threads == THREADS_MAX) {
        return -EAGAIN;
    }
    memset(&event, 0, sizeof(event));
    event.sigev_notify           = SIGEV_THREAD_ID;
    event.sigev_signo            = SIGNAL;
    event.sigev_value.sival_int  = tid;
    event.sigev_notify_thread_id = tid;
    struct thread * thread = &threads[n_threads];
    if (timer_create(CLOCK_MONOTONIC, &event, &thread->timer) != 0) {
        return errno == EINVAL ? 0 : -errno;
    }
    thread->tid  = tid;
    thread->seen = true;
    n_threads++;
    return 0;
}

/* Goes through the threads there are now; returns how many have no timer yet. */
static int scan(bool add) {
    DIR * tasks = opendir("/proc/self/task");
    int strangers = 0;
    if (tasks == NULL) {
        return -errno;
    }
    for (int i = 0; i < n_threads; i++) {
        threads[i].seen = false;
    }
    for (struct dirent * entry = readdir(tasks); entry != NULL; entry = readdir(tasks)) {
        const int32_t tid = (int32_t) strtol(entry->d_name, NULL, 10);
        struct thread * known = tid > 0 ? find_thread(tid) : NULL;
        if (known != NULL) {
            known->seen = true;
        } else if (tid > 0) {
            const int status = add ? add_thread(tid) : 0;
            if (status < 0) {
                closedir(tasks);
                return status;
            }
            strangers++;
        }
    }
    closedir(tasks);
    return strangers;
}

static void forget_ended_threads(void) {
    int kept = 0;
    for (int i = 0; i < n_threads; i++) {
        if (threads[i].seen) {
            threads[kept++] = threads[i];
        } else {
            timer_delete(threads[i].timer);
        }
    }
    n_threads = kept;
}

static void set_timers(long interval_ns) {
    struct itimerspec when;
    memset(&when, 0, sizeof(when));
    for (int i = 0; i < n_threads; i++) {
        if (interval_ns > 0) {
            when.it_interval.tv_nsec = interval_ns;
            when.it_value.tv_nsec    = next_phase(interval_ns);
        }
        timer_settime(threads[i].timer, 0, &when, NULL);
    }
}

/* Room for that many samples between two takes; installs the handler. */
API int ggmlprobe_sampler_open(size_t room) {
    struct sigaction action;
#if !defined(__x86_64__) && !defined(__aarch64__)
    return -ENOTSUP;
#endif
    if (samples != NULL) {
        return -EBUSY;
    }
    samples = calloc(room, sizeof(*samples));
    if (samples == NULL) {
        return -ENOMEM;
    }
    capacity = room;
    atomic_store(&taken, 0);
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_signal;
    action.sa_flags     = SA_SIGINFO | SA_RESTART;
    sigfillset(&action.sa_mask);
    if (sigaction(SIGNAL, &action, &before) != 0) {
        free(samples);
        samples = NULL;
        return -errno;
    }
    return 0;
}

/* Starts sampling every thread there is now; returns how many. */
API int ggmlprobe_sampler_arm(long interval_ns) {
    if (samples == NULL || interval_ns <= 0 || interval_ns >= NS_PER_SECOND) {
        return -EINVAL;
    }
    const int status = scan(true);
    if (status < 0) {
        return status;
    }
    forget_ended_threads();
    atomic_store(&recording, true);
    set_timers(interval_ns);
    return n_threads;
}

/* Stops sampling; returns how many threads came while it ran and are still there, unsampled. */
API int ggmlprobe_sampler_disarm(void) {
    set_timers(0);
    atomic_store(&recording, false);
    return scan(false);
}

/* Hands out the samples since the last take, at most n; *lost is those there was no room for. */
API size_t ggmlprobe_sampler_take(uint64_t * pcs, int32_t * tids, size_t n, size_t * lost) {
    const size_t all  = atomic_exchange(&taken, 0);
    const size_t kept = all < capacity ? all : capacity;
    const size_t out  = kept < n ? kept : n;
    for (size_t i = 0; i < out; i++) {
        pcs[i]  = samples[i].pc;
        tids[i] = samples[i].tid;
    }
    *lost = all - out;
    return out;
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec / NS_PER_SECOND;
}

static double spin(long turns) {
    const double start = seconds_now();
    for (volatile long i = 0; i < turns; i++) {
    }
    return seconds_now() - start;
}

/* Nanoseconds that a sample takes from the thread it interrupts: some hundred on bare metal, 20 000
 * and more in a virtual machine whose timers go through the host. The least of several tries. */
API long ggmlprobe_sampler_cost(long interval_ns) {
    enum { TRIES = 12, SAMPLES = 10 };
    const double wanted = (double) interval_ns * SAMPLES / NS_PER_SECOND;
    double plain = 1.0, sampled = 1.0;
    long turns = 1000;
    while (spin(turns) < wanted) {
        turns *= 2;
    }
    for (int i = 0; i < TRIES; i++) {
        const double without = spin(turns);
        const int status = ggmlprobe_sampler_arm(interval_ns);
        if (status < 0) {
            return status;
        }
        const double with = spin(turns);
        ggmlprobe_sampler_disarm();
        plain   = without < plain ? without : plain;
        sampled = with < sampled ? with : sampled;
    }
    atomic_store(&taken, 0);
    const double samples_in_it = sampled * NS_PER_SECOND / (double) interval_ns;
    return sampled > plain ? (long) ((sampled - plain) * NS_PER_SECOND / samples_in_it) : 0;
}

/* Takes timers, handler and memory away. A signal that is still on its way is thrown away. */
API void ggmlprobe_sampler_close(void) {
    if (samples == NULL) {
        return;
    }
    atomic_store(&recording, false);
    set_timers(0);
    for (int i = 0; i < n_threads; i++) {
        timer_delete(threads[i].timer);
    }
    n_threads = 0;
    struct sigaction ignore;
    memset(&ignore, 0, sizeof(ignore));
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGNAL, &ignore, NULL);
    sigaction(SIGNAL, &before, NULL);
    free(samples);
    samples  = NULL;
    capacity = 0;
}
