# What a line of an NHC configuration finds when bash runs it: the functions and variables that NHC documents for checks.
# Trireme speaks with this shell in messages of words that end with a NUL: it writes to descriptor 198, the shell to 199.
# Arguments: the checks that Trireme knows itself; they are functions here that ask it.

__trireme_natives=" $* "
set --
set -f          # as NHC does; checks that want file names turn it off
shopt -s extdebug  # `declare -F` tells the file of a function, and a DEBUG trap may skip a command

__trireme_send() { printf '%s\0' "$@" >&199; }
# Sends, and reads the two words of the answer.
__trireme_ask() {
  __trireme_send "$@"
  IFS= read -r -d '' -u 198 __trireme_code
  IFS= read -r -d '' -u 198 __trireme_text
}

### Messages
log() { [[ $SILENT == 0 ]] && __trireme_send log "$*"; return 0; }
vlog() { [[ $VERBOSE == 1 ]] && __trireme_send log "$*"; return 0; }
dbg() { [[ $DEBUG == 1 ]] && __trireme_send log "DEBUG:  $*"; return 0; }
oecho() { log "$@"; }
eecho() { log "$@"; }
vecho() { vlog "$@"; }
syslog() { LOGGER_TEXT+="${LOGGER_TEXT:+$'\n'}$*"; }
syslog_flush() {
  if [[ -n $LOGGER_TEXT ]] && type -P logger >/dev/null; then
    logger -p daemon.err -t "$NAME[$NHC_PID]" <<<"$LOGGER_TEXT" 2>/dev/null
  fi
  LOGGER_TEXT=""
  return 0
}
kill_watchdog() { return 0; }

# CODE MESSAGE...: the failure of a check. With NHC_CHECK_ALL the next check follows, else this ends the run.
die() {
  local code=$1
  shift
  IFS=$' \t\n'
  CHECK_DIED=1
  __trireme_send fail "$code" "$*"
  syslog "Health check failed:  $*"
  syslog_flush
  if [[ $NHC_CHECK_ALL == 1 ]]; then
    ((FAIL_CNT++))
    return 0
  fi
  exit "$code"
}

### Matches, sizes and facts, as checks of a site use them
mcheck() { __trireme_ask match "$1" "$2"; return "$__trireme_code"; }
mcheck_glob() { mcheck "$1" "$2"; }
mcheck_regexp() { [[ $1 =~ $2 ]]; }
mcheck_range() { mcheck "$1" "{$2}"; }

# SIZE [VARIABLE [MULTIPLE]]: "32GB" in kB.
nhc_common_parse_size() {
  local number=${1/%[bB]} step=0 units=kmgtpe unit
  unit=${number: -1}
  if [[ $unit == [a-zA-Z] ]]; then
    number=${number%?}
    unit=${units%%"${unit,,}"*}
    step=${#unit}
  fi
  while ((step-- > 0)); do ((number *= ${3:-1024})); done
  [[ -z $2 ]] || printf -v "$2" '%s' "$number"
}
nhc_common_get_unix_time() { SECONDS=$(date +%s); }
nhc_cmd_with_timeout() { timeout -k 1 "$@"; }

nhc_hw_gather_data() {
  local key value
  HW_RAM_FREE=0
  while IFS=': ' read -r key value _; do
    case $key in
      MemTotal) HW_RAM_TOTAL=$value ;;
      MemFree) HW_RAM_FREE=$value ;;
      Buffers | Cached) ((HW_RAM_FREE += value)) ;;
      SwapTotal) HW_SWAP_TOTAL=$value ;;
      SwapFree) HW_SWAP_FREE=$value ;;
    esac
  done </proc/meminfo
  HW_ETH_DEV=()
  while IFS=': ' read -r key value; do
    [[ -e /sys/class/net/$key ]] && HW_ETH_DEV+=("$key")
  done </proc/net/dev
  __trireme_ask cpus
  read -r HW_SOCKETS HW_CORES HW_THREADS <<<"$__trireme_text"
}

### Native checks
__trireme_check() {
  __trireme_ask check "$#" "$@"
  IFS= read -r -d '' -u 198 __trireme_output
  [[ $__trireme_code != fail ]] || { die 1 "$__trireme_text"; return 1; }
  return 0
}
# check_cmd_output -O NAME also sets an array to the lines of the output, for the function of a site that calls it.
__trireme_check_cmd_output() {
  local OPTION OPTARG OPTIND=1 __trireme_array="" __trireme_status
  while getopts ":C:M:O:e:m:r:t:" OPTION; do
    [[ $OPTION != O ]] || __trireme_array=$OPTARG
  done
  __trireme_check check_cmd_output "$@"
  __trireme_status=$?
  if [[ -n $__trireme_array && -n $__trireme_output ]]; then
    mapfile -t "$__trireme_array" <<<"$__trireme_output"
  elif [[ -n $__trireme_array ]]; then
    eval "$__trireme_array=()"
  fi
  return "$__trireme_status"
}
# bash calls it for a command that does not exist; a check that is not defined has not failed.
command_not_found_handle() {
  if [[ $1 == check_* ]]; then
    __trireme_send unknown "$*"
    return 0
  fi
  printf '%s: command not found\n' "$1" >&2
  return 127
}
__trireme_take_over() {
  local name where
  for name in $__trireme_natives; do
    if where=$(declare -F "$name"); then
      __trireme_ask site "${where#* * }"
      [[ $__trireme_code == 0 ]] || continue
    fi
    case $name in
      check_cmd_output) check_cmd_output() { __trireme_check_cmd_output "$@"; } ;;
      *) eval "$name() { __trireme_check $name \"\$@\"; }" ;;
    esac
  done
}

### Files
# Called before every command: one that reads a file is skipped when the file is not to be trusted, and one that is a
# check is named.
__trireme_guard() {
  case $BASH_COMMAND in
    check_*)
      __trireme_send called "${BASH_COMMAND%%[^a-zA-Z0-9_]*}"
      return 0
      ;;
    "source "* | ". "*) ;;
    *) return 0 ;;
  esac
  local -a words
  eval "words=( ${BASH_COMMAND#* } )" 2>/dev/null
  local file=${words[0]}
  [[ $file == */* || -e $file ]] || file=$(type -P "$file")
  [[ -e $file ]] || return 0
  __trireme_ask trusted "$file"
  [[ $__trireme_code == 0 ]] && return 0
  __trireme_send refused "$file" "$__trireme_text"
  return 1
}

LOGGER_TEXT="" CHECK="" CHECK_DIED=0 FAIL_CNT=0 NHC_PID=$$ NHC_FD_OUT=1 NHC_FD_ERR=2
: "${NAME:=nhc}" "${CONFDIR:=/etc/nhc}" "${INCDIR:=$CONFDIR/scripts}" "${SILENT:=0}" "${VERBOSE:=0}" "${DEBUG:=0}"
: "${TS:=0}" "${TIMEOUT:=30}" "${NHC_CHECK_FORKED:=0}" "${DETACHED_MODE:=0}" "${MARK_OFFLINE:=0}" "${NHC_RM:=}"
: "${LIBEXECDIR:=$([[ -d /usr/libexec && ! -f /etc/debian_version ]] && echo /usr/libexec || echo /usr/lib)}"
: "${HELPERDIR:=$LIBEXECDIR/nhc}" "${CONFFILE:=$CONFDIR/$NAME.conf}"
export HOSTNAME HOSTNAME_S NAME CONFDIR CONFFILE INCDIR HELPERDIR LIBEXECDIR

set +f
__trireme_scripts=("$INCDIR"/*.nhc)
set -f
for SCRIPT in "${__trireme_scripts[@]}"; do
  [[ -e $SCRIPT ]] || continue
  __trireme_ask trusted "$SCRIPT"
  if [[ $__trireme_code != 0 ]]; then
    __trireme_send refused "$SCRIPT" "$__trireme_text"
    continue
  fi
  __trireme_text=$("$BASH" -O extglob -n "$SCRIPT" 2>&1) || __trireme_send refused "$SCRIPT" "${__trireme_text%%$'\n'*}"
  __trireme_send loading "$SCRIPT"
  . "$SCRIPT"
done
__trireme_take_over
set -f
nhc_hw_gather_data
trap '__trireme_guard' DEBUG
__trireme_send ready

while IFS= read -r -d '' -u 198 __trireme_what; do
  case $__trireme_what in
    set)
      IFS= read -r -d '' -u 198 __trireme_code
      IFS= read -r -d '' -u 198 __trireme_text
      export "$__trireme_code=$__trireme_text"
      ;;
    run)
      IFS= read -r -d '' -u 198 CHECK
      CHECK_DIED=0
      if __trireme_text=$("$BASH" -O extglob -n -c "$CHECK" 2>&1); then
        eval "$CHECK"
        RET=$?
        syslog_flush
        __trireme_send done "$RET" "$PATH"
      else
        __trireme_text=${__trireme_text%%$'\n'*}
        __trireme_send syntax "${__trireme_text#*line [0-9]*: }"
        __trireme_send done 0 "$PATH"
      fi
      ;;
  esac
done
