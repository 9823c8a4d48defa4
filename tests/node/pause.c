/* The process that holds a pod's namespaces: waits, reaps what is left to it, and ends when it is told to. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t told_to_end;

static void end(int number) { (void)number; told_to_end = 1; }
static void child_ended(int number) { (void)number; }

int main(void) {
  sigset_t handled, before;
  struct sigaction on_end = {.sa_handler = end}, on_child = {.sa_handler = child_ended};

  sigemptyset(&handled);
  sigaddset(&handled, SIGINT);
  sigaddset(&handled, SIGTERM);
  sigaddset(&handled, SIGCHLD);
  sigprocmask(SIG_BLOCK, &handled, &before);
  sigaction(SIGINT, &on_end, NULL);
  sigaction(SIGTERM, &on_end, NULL);
  sigaction(SIGCHLD, &on_child, NULL);
  while (!told_to_end) {
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    sigsuspend(&before); /* the signals get through only here, so none is missed */
  }
  return EXIT_SUCCESS;
}
