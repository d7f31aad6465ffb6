import { useQuery } from '@tanstack/react-query'
import { useToasts } from './controls/toasts.tsx'
import { useMay } from './scopes.ts'
import { keys, server } from './server.ts'
import { text } from './text.ts'

/** The name of the project; a choice if the process serves several. */
export function ProjectSwitcher({ name }: { name: string }) {
  const mayList = useMay('admin')
  const { attempt } = useToasts()
  const projects = useQuery({
    queryKey: keys.projects,
    queryFn: () => server.projects(),
    enabled: mayList,
    staleTime: Number.POSITIVE_INFINITY,
  })
  const items = projects.data?.items ?? []
  const current = items.find(({ is_this }) => is_this)
  if (items.length < 2 || !current) return <span>{name}</span>
  async function open(projectId: string): Promise<void> {
    // The link signs this browser in: each project has its own sessions.
    const { url } = await server.projectLink(projectId)
    location.assign(url)
  }
  return (
    <select
      className="projects"
      aria-label={text.projects.choose}
      value={current.id}
      onChange={(event) => void attempt(() => open(event.target.value))}
    >
      {items.map(({ id, name: shown }) => (
        <option key={id} value={id}>
          {shown}
        </option>
      ))}
    </select>
  )
}
