# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Completion without bash-completion: the words of a line are given to the function as bash would,
# and what it offers is compared. Prints TAP. BLKHIST is the program, $1 the completion.
set -u
shopt -s extglob
# shellcheck source=/dev/null
source "$1"

number=0 failed=0

# Splits @line as bash does, where '=' and ':' are words of their own, and completes the last one.
complete_line()
{
	local line=$1 word rest
	COMP_WORDS=()
	while read -r -d ' ' word; do
		while [[ $word == *[=:]* ]]; do
			rest=${word#*[=:]}
			[[ -z ${word%%[=:]*} ]] || COMP_WORDS+=("${word%%[=:]*}")
			COMP_WORDS+=("${word:${#word}-${#rest}-1:1}")
			word=$rest
		done
		[[ -z $word ]] || COMP_WORDS+=("$word")
	done <<<"$line "
	[[ $line != *' ' ]] || COMP_WORDS+=('')
	COMP_WORDS[0]=$BLKHIST
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	COMPREPLY=('of the line before')
	_blkhist "$BLKHIST" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
}

# result LINE WORD...: whether exactly these words were offered, in any order.
result()
{
	local line=$1 got expected
	shift
	number=$((number + 1))
	got=$(printf '%s\n' "${COMPREPLY[@]}" | sort)
	expected=$(printf '%s\n' "$@" | sort)
	if [[ $got == "$expected" ]]; then
		printf 'ok %d - %s\n' "$number" "$line"
	else
		printf 'not ok %d - %s\n' "$number" "$line"
		printf '# expected %s\n# got %s\n' "${expected//$'\n'/ }" "${got//$'\n'/ }"
		failed=1
	fi
}

# offers LINE WORD...
offers()
{
	complete_line "$1"
	result "$@"
}

devices()
{
	local name
	for name in /sys/class/block/*; do
		name=${name##*/}
		printf '%s\n' "${name//!//}"
	done
}

# offers_devices LINE: all that there are, while none comes or goes.
offers_devices()
{
	local -a before after
	mapfile -t before < <(devices)
	while complete_line "$1"; mapfile -t after < <(devices); [[ ${before[*]} != "${after[*]}" ]]; do
		before=("${after[@]}")
	done
	result "$1" "${before[@]}"
}

directory=$(mktemp -d)
trap 'rm -r "$directory"' EXIT
cd "$directory" || exit 1
mkdir traces 'with space'
touch sda.blktrace.0 sda.blktrace.1 other.conf

# Commands
offers 'blkhist s' start stop status show slow
offers 'blkhist help buc' buckets
offers 'blkhist help show '
offers 'blkhist --v' --version
offers 'blkhist nosuch --'

# Options, of which some take a value
offers 'blkhist status --' --format --verify --help
offers 'blkhist reset --p' --print
offers 'blkhist show --format ' text json
offers 'blkhist show -f j' json
offers 'blkhist show --format=' text json
offers 'blkhist show --format=t' text
offers 'blkhist start --stamp k' kernel
offers 'blkhist start --bios o' on off
offers 'blkhist show -i --start ' queue get

# Lists
offers 'blkhist start --kinds ' request service queue seek
offers 'blkhist show -k se' service seek
offers 'blkhist show -k seek,' seek,request seek,service seek,queue
offers 'blkhist reset --op=read,write,' read,write,discard read,write,flush
offers 'blkhist show -to wr' write
offers 'blkhist record -a issue,co' issue,complete
offers 'blkhist record --op d' discard
offers 'blkhist slow -f j' json
offers 'blkhist buckets --time ' 'native:' 'log2,' '125,' 'linear:'
offers 'blkhist buckets --time native:'
offers_devices 'blkhist watch -i -d '

# Operands
offers_devices 'blkhist show '
offers_devices 'blkhist watch 1 5 '
offers 'blkhist show --total nosuchdisk'
offers 'blkhist show /de' /dev
offers 'blkhist stop '
offers 'blkhist show -i sda' sda.blktrace.0 sda.blktrace.1
offers 'blkhist watch --input t' traces
offers 'blkhist show -ai w' 'with space'
offers 'blkhist show -i -o read ot' other.conf
offers 'blkhist show --input --partitions ot' other.conf
offers 'blkhist start -c ot' other.conf

# The file tree
offers 'blkhist mount ./t' ./traces
offers 'blkhist unmount w' 'with space'
offers 'blkhist mount --no' --no-start

echo "1..$number"
exit $failed
