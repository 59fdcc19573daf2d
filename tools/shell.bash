# Start file of the bash of `make shell`: the user's own settings, the prompt, and completion of the executables.
for file in /etc/bash.bashrc ~/.bashrc; do
  if [ -r "$file" ]; then . "$file"; fi
done
unset file
PS1=$KERNCAP_PROMPT
unset KERNCAP_PROMPT
# End with 0, whatever the last command returned: otherwise make would report an error of the shell.
trap 'exit 0' EXIT

# Load an executable's completion when it is first needed. After 124 bash tries the completion again.
_kerncap_completion() {
  local variable=_${1//-/_}_COMPLETE
  eval "$(env "${variable^^}=source_bash" "$1")" && return 124
}
complete -o default -F _kerncap_completion \
  kc-{assemble,capture,evaluate,evaluate-serve,extract,generate,locate,profile,replay,run,show,softgpu,store,tune,validate} kerncap kerncap-mcp kerncap-replay
